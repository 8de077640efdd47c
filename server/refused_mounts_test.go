package server

import (
	"net/netip"
	"testing"
	"time"

	"go.uber.org/zap"
)

// A client that is refused again and again makes a line from time to time, which
// says how many it stands for; many clients at once do not make the memory grow;
// and each refusal is in some line's number in the end.
func TestRefusedMountsAreRateLimited(t *testing.T) {
	m := newRefusedMounts(zap.NewNop())
	now := time.Now()
	client := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}) }
	lines, stoodFor, asked := 0, 0, 0
	ask := func(i int) bool {
		asked++
		leftOut, due := m.due(client(i), now)
		if due {
			lines++
			stoodFor += 1 + leftOut
		}
		return due
	}
	if !ask(1) {
		t.Error("the first makes no line")
	}
	for range 99 {
		if ask(1) {
			t.Error("one at once after another makes a line")
		}
	}
	if !ask(2) {
		t.Error("the first of another client makes no line")
	}
	now = now.Add(refusalEvery)
	if leftOut, due := m.due(client(1), now); !due || leftOut != 99 {
		t.Errorf("after a while: %v, for %d others", due, leftOut)
	}
	asked, stoodFor = asked+1, stoodFor+100
	now = now.Add(refusalEvery)
	lines = 0
	for i := range 5000 {
		ask(100 + i)
	}
	if lines > refusalClients || len(m.clients) > refusalClients {
		t.Errorf("5000 clients made %d lines, and %d are remembered", lines, len(m.clients))
	}
	now = now.Add(refusalEvery)
	if !ask(100_000) {
		t.Error("a new client makes no line after a while")
	}
	if stoodFor != asked {
		t.Errorf("lines stand for %d refusals of %d", stoodFor, asked)
	}
}
