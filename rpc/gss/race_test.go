//go:build race

package gss_test

// raceEnabled: the race detector slows everything down, and allocates.
const raceEnabled = true
