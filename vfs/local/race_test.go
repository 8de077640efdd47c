//go:build race

package local_test

// raceEnabled: allocation tests are skipped, because the race detector itself allocates.
const raceEnabled = true
