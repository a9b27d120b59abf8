//go:build !race

package exec

const underRace = false
