//go:build race

package rdma

const raceEnabled = true

// slower divides the work of stress tests.
const slower = 4
