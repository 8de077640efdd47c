package server

import (
	"fmt"
	"strings"
	"testing"
)

// The last lines are kept in their order, each cut to its longest length.
func TestLastLinesAreKept(t *testing.T) {
	var l lastLines
	if all := l.all(); len(all) != 0 {
		t.Errorf("at first: %q", all)
	}
	for i := range 2*keptLines + 3 {
		fmt.Fprintf(&l, "line %d\n", i)
	}
	fmt.Fprintln(&l, strings.Repeat("x", 2*longestKept))
	all := l.all()
	if len(all) != keptLines || all[0] != fmt.Sprintf("line %d", keptLines+4) || len(all[keptLines-1]) != longestKept {
		t.Errorf("%d lines, from %q", len(all), all[0])
	}
}
