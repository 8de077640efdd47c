//go:build !race

package rdma

const raceEnabled = false

// slower divides the work of stress tests.
const slower = 1
