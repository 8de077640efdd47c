package state

import (
	"fmt"
	"maps"
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
		of.opens.each(c.deny, c.access, func(*openGroup, *Client) bool {
			looks++
			return false // stop here, as for a client with a valid lease
		})
		g := m.acquire()
		conflict := g.conflict(idOf(1), c.deny, c.access, nil)
		g.release()
		if looks != c.looks || conflict != c.conflict || g.late.firm != c.conflict {
			t.Errorf("an open %s: %d looks, want %d; conflict %v (firm %v), want %v", c.name, looks, c.looks, conflict, g.late.firm, c.conflict)
		}
	}
}

// After any sequence of added and removed opens, each group has the number of opens of each client.
func TestGroupsOfOpens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type place struct {
			c *Client
			m modes
		}
		var all opens
		var clients [5]Client
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
				want, got := map[place]int{}, map[place]int{}
				for _, s := range has {
					want[place{s.Client, s.modes}]++
				}
				all.each(AccessRead, 0, func(g *openGroup, c *Client) bool {
					got[place{c, mode(g.access, g.deny)}] += g.clients[c]
					return true
				})
				if !maps.Equal(got, want) {
					t.Errorf("the groups have %v, want %v", got, want)
				}
			},
		})
	})
}
