//go:build race

package model

// underRace: the race detector makes sync.Pool forget what it is given, now and then.
const underRace = true
