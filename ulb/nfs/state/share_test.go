package state

import (
	"fmt"
	"testing"
)

// The search for a conflicting open skips the opens that cannot conflict, and ends at the
// first that does.
func TestSearchForConflictsEndsInTheFirst(t *testing.T) {
	m := newManager(t)
	a := newClient(m, 1, "a")
	for i := range 100 {
		open(t, m, a, fmt.Sprint("reader ", i), fileKey(1), AccessRead, 0)
	}
	open(t, m, a, "writer", fileKey(1), AccessBoth, 0)
	of := m.files.byID[idOf(1)]
	for _, c := range []struct {
		name         string
		access, deny Access
		looks        int
		conflict     bool
	}{
		{"beside all", AccessBoth, 0, 0, false},
		{"that denies what all have", AccessRead, AccessRead, 1, true},
		{"that denies what one has", AccessRead, AccessWrite, 1, true},
	} {
		looks := 0
		of.opens.each(c.deny, c.access, func(*State) bool {
			looks++
			return false // stop here, as for a client with a valid lease
		})
		var late courtesy
		m.mu.Lock()
		conflict := m.conflictLocked(idOf(1), c.deny, c.access, nil, &late)
		m.mu.Unlock()
		if looks != c.looks || conflict != c.conflict || late.firm != c.conflict {
			t.Errorf("an open %s: %d looks, want %d; conflict %v (firm %v), want %v", c.name, looks, c.looks, conflict, late.firm, c.conflict)
		}
	}
}
