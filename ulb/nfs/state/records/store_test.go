package records

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

func open(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func begin(t *testing.T, s *Store) (uint32, []state.Record) {
	t.Helper()
	n, known, err := s.Begin()
	if err != nil {
		t.Fatal(err)
	}
	return n, known
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestRecordsOutliveTheServer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "clients")
	a := state.Record{Kind: 0, Owner: "host", Principal: "uid 0"}
	b := state.Record{Kind: 1, Owner: "host", Principal: "gss x", Address: netip.MustParseAddr("2001:db8::"), Lease: 90 * time.Second, Revoked: true, Guarded: true, Held: state.HeldOpens | state.HeldDenials}
	c := state.Record{Kind: 1, Owner: strings.Repeat("\x00\xff", 512), Principal: ""}
	b2 := state.Record{Kind: 1, Owner: "host", Principal: "other", Address: b.Address}
	far := state.Record{Kind: 1, Owner: "host", Principal: "other", Address: b.Address, Privileged: true} // another client
	proven := state.Record{Kind: 1, Owner: "host", Principal: "gss x", Proven: true}
	moved := state.Record{Kind: 1, Owner: "host", Principal: "gss y", Proven: true, Privileged: true, Address: b.Address} // proven has one place
	first := uint32(0)
	for i, step := range []struct {
		change func(s *Store)
		then   []state.Record
	}{
		{func(s *Store) { must(t, s.Put([]state.Record{a, b})); must(t, s.Put([]state.Record{c})) }, []state.Record{a, c, b}},
		{func(s *Store) { must(t, s.Put([]state.Record{b, a, b})) }, []state.Record{a, c, b}},
		{func(s *Store) { must(t, s.Remove([]state.Record{a, c, c, {Owner: "never there"}})) }, []state.Record{b}},
		{func(s *Store) { must(t, s.Put([]state.Record{b2})) }, []state.Record{b2}},
		{func(s *Store) { must(t, s.Put([]state.Record{far, proven})) }, []state.Record{b2, proven, far}},
		{func(s *Store) { must(t, s.Put([]state.Record{moved})) }, []state.Record{b2, moved, far}},
		{func(s *Store) { must(t, s.Remove([]state.Record{b2, proven})) }, []state.Record{far}},
	} {
		s := open(t, path)
		n, _ := begin(t, s)
		if i == 0 {
			first = n
		}
		if n != first+uint32(2*i) {
			t.Errorf("start %d is counted as %d, the first was %d", 2*i+1, n, first)
		}
		step.change(s)
		must(t, s.Close())
		s = open(t, path)
		if _, known := begin(t, s); !slices.Equal(known, step.then) {
			t.Errorf("step %d: %+v", i, known)
		}
		must(t, s.Close())
	}
}

func TestRecordsBelongToOneServer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "clients")
	open(t, path)
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Error(err)
	}
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 {
		t.Error(fi.Mode(), err)
	}
}
