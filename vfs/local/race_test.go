//go:build race

package local_test

// raceEnabled: the detector allocates where the program does not.
const raceEnabled = true
