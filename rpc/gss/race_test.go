//go:build race

package gss_test

// raceEnabled is true if the test runs under the race detector, which is slow and allocates.
const raceEnabled = true
