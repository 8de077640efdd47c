package local

import "sync/atomic"

// nameMemory is the memory that names of directories take in all FSs of the process, in bytes: those names
// that the FSs remember (dirMemory), and those that listings in the order of names have read ahead
// (namesAhead). It is at most maxNameMemory; an FS may have half of what the other FSs leave.
var nameMemory atomic.Int64

const (
	maxNameMemory = 64 << 20
	// nameOverhead is what a remembered name takes beside its own bytes, as was measured.
	nameOverhead = 112
)

// takeNames counts memory for names, or returns false if the FS may not have that much.
func (fs *FS) takeNames(bytes int64) bool {
	own, all := fs.stats.nameBytes.Add(bytes), nameMemory.Add(bytes)
	if own <= (maxNameMemory-(all-own))/2 {
		return true
	}
	fs.giveNames(bytes)
	return false
}

// giveNames undoes takeNames.
func (fs *FS) giveNames(bytes int64) {
	fs.stats.nameBytes.Add(-bytes)
	nameMemory.Add(-bytes)
}
