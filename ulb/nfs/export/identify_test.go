package export_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/test/groups"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
)

var caller = &rpc.Conn{Peer: netip.MustParseAddrPort("192.0.2.1:700")}

// With ManageGIDs, an export takes the supplementary groups of an AUTH_SYS caller from Groups. It
// does so for no other callers. The primary group is the one that the caller sent.
func TestManagedGroups(t *testing.T) {
	var known groups.Fake
	known.Know(1000, 5, 0, 7)
	known.Know(0, 1)
	known.Know(2000)
	table := export.NewTable([export.KeySize]byte{1})
	table.Groups = &known
	sys := func(uid uint32) rpc.Cred {
		return rpc.Cred{Flavor: rpc.AuthSys, UID: uid, GID: 100, Groups: []uint32{9}}
	}
	gss := rpc.Cred{Flavor: rpc.AuthGSS, GSS: rpc.GSSNone, UID: 1000, GID: 100, Groups: []uint32{9}}
	nobody := rpc.Cred{Flavor: rpc.AuthNone}
	anonymous := vfs.Cred{UID: export.Nobody, GID: export.Nobody}
	for _, c := range []struct {
		name   string
		squash export.Squash
		cred   rpc.Cred
		as     vfs.Cred
		asks   bool
	}{
		{"a user", export.NoSquash, sys(1000), vfs.Cred{UID: 1000, GID: 100, Groups: []uint32{5, 0, 7}}, true},
		{"a user, root squashed", export.RootSquash, sys(1000), vfs.Cred{UID: 1000, GID: 100, Groups: []uint32{5, export.Nobody, 7}}, true},
		{"a user without an account", export.NoSquash, sys(2000), vfs.Cred{UID: 2000, GID: 100}, true},
		{"root", export.NoSquash, sys(0), vfs.Cred{UID: 0, GID: 100, Groups: []uint32{1}}, true},
		{"root, squashed", export.RootSquash, sys(0), anonymous, false},
		{"everybody squashed", export.AllSquash, sys(1000), anonymous, false},
		{"Kerberos", export.NoSquash, gss, vfs.Cred{UID: 1000, GID: 100, Groups: []uint32{9}}, false},
		{"nobody", export.NoSquash, nobody, anonymous, false},
	} {
		e := &export.Export{Options: export.Options{Squash: c.squash, AnonUID: export.Nobody, AnonGID: export.Nobody, ManageGIDs: true}}
		var l export.Looked
		var as vfs.Cred
		before := known.Asked()
		for range 2 { // a call causes only one look-up
			if err := table.Look(e, caller, &c.cred, &l); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
		}
		e.Identify(&c.cred, &l, &as)
		if as.UID != c.as.UID || as.GID != c.as.GID || !slices.Equal(as.Groups, c.as.Groups) {
			t.Errorf("%s: acts as %+v, want %+v", c.name, as, c.as)
		}
		if n := known.Asked() - before; n != map[bool]int{true: 1}[c.asks] {
			t.Errorf("%s: asked %d times", c.name, n)
		}
	}
	// Without Look, or after a failed Look, the caller has no supplementary groups, whatever groups
	// it claims.
	e := &export.Export{Options: export.Options{Squash: export.NoSquash, ManageGIDs: true}}
	var as vfs.Cred
	cred := sys(3000)
	if err := table.Look(e, caller, &cred, new(export.Looked)); err == nil {
		t.Error("groups that are not known were found")
	}
	if e.Identify(&cred, new(export.Looked), &as); len(as.Groups) != 0 {
		t.Errorf("not looked up: %v", as.Groups)
	}
	known.Delay(3000)
	squashing := &export.Export{Options: export.Options{Squash: export.AllSquash, ManageGIDs: true}}
	if !table.Delays(e, &cred) || table.Delays(squashing, &cred) || table.Delays(&export.Export{}, &cred) {
		t.Error("which calls are delayed")
	}
}

// A table without Groups refuses an export with ManageGIDs.
func TestManagedGroupsWithoutAService(t *testing.T) {
	table := export.NewTable([export.KeySize]byte{1})
	all := []*export.Export{{Name: "/a", FS: memfs.New(memfs.Options{}), Options: export.Options{ManageGIDs: true}}}
	if err := table.Replace(all); err == nil || !strings.Contains(err.Error(), "this server has no service that looks up groups") {
		t.Errorf("%v", err)
	}
	table.Groups = new(groups.Fake)
	if err := table.Replace(all); err != nil {
		t.Error(err)
	}
}
