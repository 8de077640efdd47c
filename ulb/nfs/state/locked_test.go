package state

import (
	"fmt"
	"slices"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/byterange"
	"pgregory.net/rapid"
)

// The searches for overlapping and for conflicting ranges find the same ranges as a comparison
// with every range.
func TestLockedRangesAreFound(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m, err := New(Config{})
		if err != nil {
			rt.Fatal(err)
		}
		defer m.Close()
		var all []*locker
		for i := range 4 {
			all = append(all, newLocker(t, m, fmt.Sprint("client ", i)))
		}
		any := func() (r byterange.Range) {
			r.First = rapid.Uint64Range(0, 30).Draw(rt, "start")
			r.Last = r.First + rapid.Uint64Range(0, 12).Draw(rt, "length")
			if rapid.IntRange(0, 9).Draw(rt, "to the end") == 0 {
				r.Last = 1<<64 - 1
			}
			r.Write = rapid.IntRange(0, 4).Draw(rt, "write") == 0
			return r
		}
		locked := map[*locker]bool{}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			l, r := rapid.SampledFrom(all).Draw(rt, "client"), any()
			length := r.Length()
			switch how := rapid.IntRange(0, 9).Draw(rt, "how"); {
			case how < 6:
				locked[l] = l.lock(false, r.First, length, r.Write) == ok || locked[l]
			case how < 9 && locked[l]:
				l.unlock(r.First, length)
			case how == 9:
				is(t, "CLOSE", l.close(false), ok)
				l.open, locked[l] = open(t, m, l.c, l.c.Owner, fileKey(1), AccessBoth, 0), false
			}
			of, asked := m.files.byID[idOf(1)], any()
			var want, wantConflicts, got, conflicts []string
			count := lockCount{}
			for _, l := range all {
				for s := range l.c.holding.states {
					if s.Kind == KindLock {
						count.locks++
					}
					count.ranges += len(s.held.Ranges())
					for _, held := range s.held.Ranges() {
						text := fmt.Sprint(s.Client.Owner, held)
						if held.Overlaps(&asked) {
							want = append(want, text)
						}
						if held.Conflicts(&asked) {
							wantConflicts = append(wantConflicts, text)
						}
					}
				}
			}
			of.locked.Each(&asked, func(s *State, held *byterange.Range) bool {
				got = append(got, fmt.Sprint(s.Client.Owner, *held))
				return true
			})
			of.locked.Conflicts(&asked, nil, func(s *State, held *byterange.Range) bool {
				conflicts = append(conflicts, fmt.Sprint(s.Client.Owner, *held))
				return true
			})
			for _, list := range [][]string{want, wantConflicts, got, conflicts} {
				slices.Sort(list)
			}
			if !slices.Equal(got, want) || !slices.Equal(conflicts, wantConflicts) || of.held != count {
				rt.Fatalf("of %v: found %v, want %v; conflicts %v, want %v; counted %v, want %v", asked, got, want, conflicts, wantConflicts, of.held, count)
			}
		}
	})
}
