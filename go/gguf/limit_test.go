//go:build !race

package gguf

import "time"

// timeLimit bounds how long a file may keep the reader busy.
const timeLimit = time.Second
