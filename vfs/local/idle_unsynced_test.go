package local

import "testing"

// idle returns a node as soon as patience rounds have passed since its last write, and not one
// round before. It leaves out nodes without references.
func TestUnsyncedDataIsDueAfterThePatience(t *testing.T) {
	var u unsyncedFiles
	const written, patience = 1<<32 - 10, 30 // round numbers wrap around to 0 here
	n, gone := new(node), new(node)
	n.refs.Store(1)
	for _, n := range []*node{n, gone} {
		n.unsynced.lastWrite.Store(written)
		u.add(n)
	}
	round := uint32(written)
	for i := range uint32(patience + 2) {
		due := u.idle(round+i, patience)
		if want := i >= patience; (len(due) == 1 && due[0] == n) != want || len(due) > 1 {
			t.Errorf("%d rounds after the write: %d nodes are due", i, len(due))
		}
	}
	if refs := n.refs.Load(); refs != 3 {
		t.Errorf("%d references behind two answers", refs)
	}
}
