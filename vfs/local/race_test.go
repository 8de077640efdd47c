//go:build race

package local_test

// raceEnabled is true under the race detector. It skips tests that count allocations, because the
// race detector allocates memory itself.
const raceEnabled = true
