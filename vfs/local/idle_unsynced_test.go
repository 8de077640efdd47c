package local

import "testing"

// idle returns a node as soon as syncAfter rounds have passed since its last write, and not one
// round before. It leaves out nodes without references.
func TestUnsyncedDataIsDueAfterThePatience(t *testing.T) {
	var u unsyncedFiles
	const written = 1<<32 - 10 // round numbers wrap around to 0 here
	var cache nodeCache
	n, gone := &node{cache: &cache}, &node{cache: &cache}
	n.refs.Store(1)
	for _, n := range []*node{n, gone} {
		n.unsynced.lastWrite.Store(written)
		u.add(n)
	}
	for i := range uint32(syncAfter + 2) {
		cache.round.Store(written + i)
		due := u.idle()
		if want := i >= syncAfter; (len(due) == 1 && due[0] == n) != want || len(due) > 1 {
			t.Errorf("%d rounds after the write: %d nodes are due", i, len(due))
		}
	}
	if refs := n.refs.Load(); refs != 3 {
		t.Errorf("%d references behind two answers", refs)
	}
}
