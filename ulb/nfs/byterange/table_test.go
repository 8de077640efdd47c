package byterange

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The searches for overlapping and for conflicting ranges find the same ranges as a comparison
// with every range, whatever the owners and their Groups are. Lock and Unlock count the ranges.
func TestTableFindsEveryRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var table Table[string]
		holders := make([]Holder[string], 4)
		for i := range holders {
			holders[i].Owner = fmt.Sprint("owner ", i)
			if i > 0 {
				holders[i].Group = i / 2 // holders 2 and 3 have the same Group
			}
		}
		draw := func() (r Range) {
			r.First = rapid.Uint64Range(0, 30).Draw(t, "first")
			r.Last = r.First + rapid.Uint64Range(0, 12).Draw(t, "more")
			if rapid.IntRange(0, 9).Draw(t, "to the end") == 0 {
				r.Last = ToEnd
			}
			r.Write = rapid.IntRange(0, 4).Draw(t, "write") == 0
			return r
		}
		count := 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			h, r := &holders[rapid.IntRange(0, len(holders)-1).Draw(t, "holder")], draw()
			before := len(h.Ranges())
			if splits := h.Ranges().Splits(r.First, r.Last); rapid.IntRange(0, 9).Draw(t, "how") < 6 {
				count += table.Lock(h, r) // the table also takes conflicting locks, because callers check for conflicts
			} else {
				count += table.Unlock(h, r.First, r.Last)
				if len(h.Ranges()) > before != splits {
					t.Fatalf("%v of %v: %d ranges, before %d; splits %v", r, h.Owner, len(h.Ranges()), before, splits)
				}
			}
			asked, all := draw(), 0
			group := holders[rapid.IntRange(0, len(holders)-1).Draw(t, "asks")].Group
			var want, wantConflicts, got, conflicts []string
			for i := range holders {
				for _, held := range holders[i].Ranges() {
					all++
					text := fmt.Sprint(holders[i].Owner, held)
					if held.Overlaps(&asked) {
						want = append(want, text)
					}
					if held.Conflicts(&asked) && (group == nil || holders[i].Group != group) {
						wantConflicts = append(wantConflicts, text)
					}
				}
			}
			at := uint64(0)
			table.Each(&asked, func(owner string, held *Range) bool {
				if held.First < at {
					t.Fatalf("of %v: %v comes behind %d", asked, held, at)
				}
				at = held.First
				got = append(got, fmt.Sprint(owner, *held))
				return true
			})
			table.Conflicts(&asked, group, func(owner string, held *Range) bool {
				conflicts = append(conflicts, fmt.Sprint(owner, *held))
				return true
			})
			for _, list := range [][]string{want, wantConflicts, got, conflicts} {
				slices.Sort(list)
			}
			if !slices.Equal(got, want) || !slices.Equal(conflicts, wantConflicts) || count != all {
				t.Fatalf("of %v: found %v, want %v; conflicts %v, want %v; counted %d of %d", asked, got, want, conflicts, wantConflicts, count, all)
			}
		}
	})
}

// A search visits the ranges that it finds and few others. It ends when the callback
// returns false.
func TestSearchVisitsFewRanges(t *testing.T) {
	const n = 1 << 16
	var table Table[int]
	var reader, writer Holder[int]
	for i := range uint64(n) {
		table.Lock(&reader, Range{First: 2 * i, Last: 2 * i})
	}
	table.Lock(&writer, Range{First: 2*n + 10, Last: ToEnd, Write: true})
	calls := 0
	find := func(int, *Range) bool {
		calls++
		return calls < 10
	}
	for range n { // if each search visited every range, this loop would not end in time
		calls = 0
		if table.Conflicts(&Range{Last: 2 * n}, nil, find); calls != 0 {
			t.Fatal("read locks conflict")
		}
		if table.Each(&Range{First: n + 2, Last: n + 4}, find); calls != 2 {
			t.Fatalf("%d ranges", calls)
		}
	}
	calls = 0
	if table.Each(&Range{Last: ToEnd}, find); calls != 10 {
		t.Errorf("%d ranges", calls)
	}
}

// A search for conflicts visits few of the ranges that the asking Group has itself, also if other
// Holders have read locks between its write locks.
func TestSearchLeavesOutItsOwnRanges(t *testing.T) {
	const n = 1 << 15
	var table Table[int]
	own := [2]Holder[int]{{Group: "own"}, {Group: "own"}}
	other := Holder[int]{Group: "other"}
	for i := range uint64(n) {
		table.Lock(&own[i%2], Range{First: 4 * i, Last: 4 * i, Write: true})
	}
	find := func(int, *Range) bool {
		t.Fatal("the own locks conflict")
		return false
	}
	for range n { // if each search visited every range, this loop would not end in time
		table.Conflicts(&Range{Last: ToEnd, Write: true}, "own", find)
	}
	for i := range uint64(n) {
		table.Lock(&other, Range{First: 4*i + 2, Last: 4*i + 2})
	}
	for range n {
		table.Conflicts(&Range{Last: ToEnd}, "own", find)
	}
}
