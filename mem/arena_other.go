//go:build !linux

package mem

// unreserved is 0 here: these systems set no swap space aside for memory that is not written, or have no such flag.
const unreserved = 0
