package local

import "testing"

// Data is due for the flusher's sync once its patience has passed since the last write, and not a
// round before. A node that its last caller has let go is left out.
func TestUnsyncedDataIsDueAfterThePatience(t *testing.T) {
	var u unsyncedFiles
	const written, patience = 1<<32 - 10, 30 // the number of a round begins again at 0
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
