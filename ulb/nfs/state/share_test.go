package state

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The search for a conflicting open skips the opens that cannot conflict, checks one open of each
// client, and ends at the first conflict.
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

// After any sequence of added and removed opens, a group has one open of each client in heads, and
// the client's other opens in the group follow it.
func TestGroupsOfOpens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all opens
		var clients [3 * fewHeads]Client
		var has []*State
		t.Repeat(map[string]func(*rapid.T){
			"open": func(t *rapid.T) {
				s := &State{Client: &clients[rapid.IntRange(0, len(clients)-1).Draw(t, "client")], modes: mode(AccessRead, Access(rapid.IntRange(0, 1).Draw(t, "deny")))}
				all.add(s)
				has = append(has, s)
			},
			"close": func(t *rapid.T) {
				if len(has) > 0 {
					i := rapid.IntRange(0, len(has)-1).Draw(t, "which")
					all.remove(has[i])
					has = slices.Delete(has, i, i+1)
				}
			},
			"": func(t *rapid.T) {
				type place struct {
					c *Client
					m modes
				}
				found, heads := 0, map[place]bool{}
				all.each(AccessRead, 0, func(head *State) bool {
					at := place{head.Client, head.modes}
					if heads[at] {
						t.Error("two heads of a client")
					}
					heads[at] = true
					for s := head; s != nil; s = s.next {
						if found++; !slices.Contains(has, s) || s.Client != at.c || s.modes != at.m {
							t.Error("an open that does not belong here")
						}
					}
					return true
				})
				if found != len(has) {
					t.Errorf("the search finds %d opens of %d", found, len(has))
				}
			},
		})
	})
}
