package server

import (
	"net/netip"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// If two users of one machine use the same name, the log has one line, with the address and the remedy. If the
// server takes away a client's state, a line gives the reason.
func TestEventsOfClientsLeaveLines(t *testing.T) {
	core, log := observer.New(zapcore.InfoLevel)
	s := &Server{log: zap.New(core)}
	s.lines = newClientLines(s.log, clientLineEvery)
	s.names = newClientLines(s.log, nameLineEvery)
	m, err := state.New(state.Config{Event: s.clientEvent})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	name := []byte("Linux NFSv4.2 clone" + strings.Repeat("!", 1000))
	first := netip.MustParseAddr("192.0.2.1")
	x := m.ExchangeID(&state.Identity{Owner: name, Caller: state.Caller{Address: first}}, false)
	m.Confirm(x.Client)
	if _, status := m.Open(&state.OpenArgs{Client: x.Client, OwnerName: []byte("o"), Access: state.AccessRead}); status == 0 {
		t.Fatal("opened before RECLAIM_COMPLETE")
	}
	m.ReclaimComplete(x.Client, nil)
	if _, status := m.Open(&state.OpenArgs{Client: x.Client, OwnerName: []byte("o"), Access: state.AccessRead}); status != 0 {
		t.Fatal(status)
	}
	for range 3 {
		m.ExchangeID(&state.Identity{Owner: name, Verifier: [8]byte{1}, Caller: state.Caller{Principal: "another user", Address: first}}, false)
	}
	lines := log.TakeAll()
	if len(lines) != 1 {
		t.Fatalf("%d lines: %v", len(lines), lines)
	}
	fields := lines[0].ContextMap()
	if fields["client"] != "192.0.2.1" || fields["first"] != "192.0.2.1" || !strings.Contains(fields["name"].(string), "Linux NFSv4.2 clone") ||
		len(fields["name"].(string)) > 2*longestName || !strings.Contains(fields["remedy"].(string), "nfs4_unique_id") {
		t.Errorf("%v", fields)
	}
	for why, words := range whys {
		s.lines = newClientLines(s.log, clientLineEvery)
		for range 2 {
			s.clientEvent(&state.Event{Kind: state.Taken, Why: why, Clients: []state.Record{{Owner: string(name), Address: first}}})
		}
		lines := log.TakeAll()
		if len(lines) != 1 || lines[0].ContextMap()["client"] != "192.0.2.1" || lines[0].ContextMap()["reason"] != words[0] || lines[0].ContextMap()["remedy"] == "" {
			t.Errorf("reason %d: %v", why, lines)
		}
	}
	s.lines = newClientLines(s.log, clientLineEvery)
	s.clientEvent(&state.Event{Kind: state.Reduced, Opens: 7, By: netip.MustParseAddr("198.51.100.1"), Clients: []state.Record{{Owner: "hog", Address: first}}})
	if lines := log.TakeAll(); len(lines) != 1 || lines[0].ContextMap()["client"] != "192.0.2.1" || lines[0].ContextMap()["for"] != "198.51.100.1" || lines[0].ContextMap()["files"] != int64(7) {
		t.Errorf("opens were taken: %v", lines)
	}
	if len(whys) != int(state.Ordered)+1 {
		t.Error("a reason has no words")
	}
}
