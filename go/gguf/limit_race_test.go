//go:build race

package gguf

import "time"

// timeLimit allows for the race detector's cost.
const timeLimit = 10 * time.Second
