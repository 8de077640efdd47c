package admin

import (
	"strings"
	"testing"
)

// The head of a page fits into 80 columns, also on a large server.
func TestTopFitsATerminal(t *testing.T) {
	top := &Top{Seconds: 2, Calls: 246_912, Status: &Status{Version: "v1.10.0", Condition: "serving", Connections: 1234, Clients: 1234, Opens: 123_456, Locks: 123_456,
		Calls: 512, Queued: 64, MemoryWaiting: 64, Memory: 1 << 30, Ceiling: 12 << 30}}
	var page strings.Builder
	if err := top.Print(&page, 1); err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(page.String(), "\n\n")
	for line := range strings.Lines(head) {
		if len(strings.TrimSpace(line)) > 80 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
	if n := strings.Count(head, "\n"); n != 2 {
		t.Errorf("the head has %d lines", n+1)
	}
}
