package server

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// One client causes at most one log line in ten seconds. The next line reports how many were left
// out before it. If very many clients have events, some events cause no line, but a later line
// counts them.
func TestClientsMakeFewLines(t *testing.T) {
	var c clientLines
	now := time.Unix(1000, 0)
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	for i, step := range []struct {
		client  netip.Addr
		after   time.Duration
		leftOut int
		due     bool
	}{
		{a, 0, 0, true},
		{a, time.Second, 0, false},
		{b, 0, 0, true},
		{a, 8 * time.Second, 0, false},
		{a, time.Second, 2, true},
		{a, 20 * time.Second, 0, true},
	} {
		now = now.Add(step.after)
		if leftOut, due := c.due(clientLine{step.client, "a line"}, now); leftOut != step.leftOut || due != step.due {
			t.Errorf("step %d: %d, %v", i, leftOut, due)
		}
	}
	c = clientLines{}
	lines := 0
	for i := range 5000 {
		if _, due := c.due(clientLine{netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), "a line"}, now); due {
			lines++
		}
	}
	if lines != mostClientLines || len(c.lines) != mostClientLines {
		t.Errorf("%d lines of 5,000 clients, %d remembered", lines, len(c.lines))
	}
	if leftOut, due := c.due(clientLine{a, "a line"}, now.Add(clientLineEvery)); leftOut != 5000-mostClientLines || !due {
		t.Errorf("later: %d, %v", leftOut, due)
	}
	if len(c.lines) != 1 {
		t.Errorf("%d clients are remembered after their time", len(c.lines))
	}
}

// Each event either causes a log line or is counted in a later one (leftOut). A client that
// repeats an event causes few lines. Memory does not grow with the number of clients.
func TestLinesStandForAllThatWereLeftOut(t *testing.T) {
	var m clientLines
	now := time.Now()
	client := func(i int) clientLine {
		return clientLine{netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), "a line"}
	}
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
	now = now.Add(clientLineEvery)
	if leftOut, due := m.due(client(1), now); !due || leftOut != 99 {
		t.Errorf("after a while: %v, for %d others", due, leftOut)
	}
	asked, stoodFor = asked+1, stoodFor+100
	now = now.Add(clientLineEvery)
	lines = 0
	for i := range 5000 {
		ask(100 + i)
	}
	if lines > mostClientLines || len(m.lines) > mostClientLines {
		t.Errorf("5000 clients made %d lines, and %d are remembered", lines, len(m.lines))
	}
	now = now.Add(clientLineEvery)
	if !ask(100_000) {
		t.Error("a new client makes no line after a while")
	}
	if stoodFor != asked {
		t.Errorf("lines stand for %d of %d", stoodFor, asked)
	}
}

// All addresses of an IPv6 /64 prefix count as one client, because a host may use any of
// them. Lines about different subjects are counted separately.
func TestOneHostMakesFewLines(t *testing.T) {
	core, log := observer.New(zapcore.WarnLevel)
	c := clientLines{log: zap.New(core)}
	none := func() []zap.Field { return nil }
	for i := range 1000 {
		a := netip.MustParseAddr("2001:db8::").As16()
		binary.BigEndian.PutUint64(a[8:], uint64(i))
		c.write(zapcore.WarnLevel, "one thing", netip.AddrFrom16(a), none)
	}
	c.write(zapcore.WarnLevel, "another thing", netip.MustParseAddr("2001:db8::1"), none)
	c.write(zapcore.DebugLevel, "a third", netip.MustParseAddr("2001:db8::1"), func() []zap.Field {
		t.Error("fields were made for a line that the log does not take")
		return nil
	})
	if log.Len() != 2 {
		t.Errorf("%d lines, want one about each thing: %v", log.Len(), log.All())
	}
}
