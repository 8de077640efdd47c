package nfs3_test

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/test/groups"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// If a client repeats a REMOVE whose reply was lost with the connection, it gets the reply of
// the first REMOVE. This holds even if the server would now refuse or delay the caller.
func TestRememberedCallIsAnsweredThoughItWouldBeRefusedNow(t *testing.T) {
	s := newSite(t)
	s.create(s.root, "f", 0o666)
	var known groups.Fake
	s.table.Groups = &known
	if err := s.table.Replace([]*export.Export{{Name: "/", FS: s.fs, Options: export.Options{ManageGIDs: true}}}); err != nil {
		t.Fatal(err)
	}
	s.uid = 1000
	known.Know(1000, 1000)
	status := func(c *rpctest.Call) wire.NFSStat3 {
		t.Helper()
		d, err := c.Results()
		if err != nil {
			t.Fatal(err)
		}
		return wire.NFSStat3(d.Uint32())
	}
	m := s.message(wire.ProcRemove, &wire.Remove3Args{Object: s.at(s.root, "f")})
	if got := status(s.run(m)); got != wire.NFS3OK {
		t.Fatal(got)
	}
	known.Delay(1000)
	if got := status(s.run(m)); got != wire.NFS3OK {
		t.Errorf("told to come later: %v", got)
	}
	if got := status(s.run(s.message(wire.ProcRemove, &wire.Remove3Args{Object: s.at(s.root, "f")}))); got != wire.NFS3ErrJukebox {
		t.Errorf("another call: %v", got)
	}
	known.Know(1000, 1000)
	if err := s.table.Replace([]*export.Export{{Name: "/", FS: s.fs, Options: export.Options{ReadOnly: true}}}); err != nil {
		t.Fatal(err)
	}
	if got := status(s.run(m)); got != wire.NFS3OK {
		t.Errorf("the export is read-only now: %v", got)
	}
}
