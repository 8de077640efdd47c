package nfs4_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs40"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs41"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// nfs4test.LinuxRoom knows how long the result of each operation may be that the server implements.
func TestLinuxRoomOfEveryOperation(t *testing.T) {
	m, err := state.New(state.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	old := nfs40.New(nfs40.Config{State: m})
	defer old.Close()
	for _, o := range slices.Concat(nfs4.Shared, old.Operations(), nfs41.New(nfs41.Config{State: m}).Operations()) {
		if _, ok := nfs4test.LinuxRoom(op(o.Number)); !ok {
			t.Errorf("nfs4test.LinuxRoom has no row for %v: say there how long a result a Linux client has room for", o.Number)
		}
	}
}

// The longest values of the attributes that a Linux client asks for together fit.
func TestLinuxRoomOfAttributes(t *testing.T) {
	for _, set := range nfs4test.LinuxAttributes() {
		room, _ := nfs4test.LinuxRoom(nfs4test.Op{Number: wire.OpGetattr, Args: &wire.Getattr4Args{AttrRequest: set}})
		if n := 8 + wire.Bitmap4MaxSize + 4 + nfs4.MostOf(&set); n > room {
			t.Errorf("%v: up to %d bytes; a Linux client has room for %d", set, n, room)
		}
	}
}

// A denied lock names the lock-owner that holds the conflicting lock, unless the name is longer than a Linux client
// has room for.
func TestLongLockOwnersAreNotNamed(t *testing.T) {
	f := newFiler(t, openSite(t), 1)
	for n, named := range map[int]bool{1: true, nfs.MaxDeniedOwner: true, nfs.MaxDeniedOwner + 1: false, 1024: false} {
		o := f.create("file", "me", both, 0)
		owner := strings.Repeat("o", n)
		id := f.lock(o.fh, opFirstLock(o.Stateid, owner, wire.WriteLt, 10, 20))
		d := f.denied(o.fh, opFirstLock(o.Stateid, "another", wire.ReadLt, 0, 100))
		if !named {
			owner = ""
		}
		if string(d.Owner.Owner) != owner || d.Offset != 10 || d.Length != 20 || d.Locktype != wire.WriteLt {
			t.Errorf("a lock-owner of %d bytes: %+v", n, d)
		}
		f.unlock(o.fh, id, 0, 100)
		f.close(o)
	}
}
