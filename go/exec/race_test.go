//go:build race

package exec

// underRace: the race detector makes sync.Pool forget what it is given, now and then.
const underRace = true
