package nfs3_test

import (
	"net/netip"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/pseudo"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
)

// MOUNT and NFSv4 hide from a client the exports that do not serve its address. NFSv3 hides
// them as well, although any client can get the handle of the tree's root by PUTROOTFH and
// GETFH.
func TestNFSv3ListsNoExports(t *testing.T) {
	s := &site{t: t, room: rpctest.TCPRoom, fs: memfs.New(memfs.Options{RootMode: 0o777})}
	s.table = export.NewTable([export.KeySize]byte{7})
	tree := pseudo.Attach(s.table)
	if err := s.table.Replace([]*export.Export{
		{Name: "/srv/payroll-2026", FS: s.fs, Clients: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}},
		{Name: "/public", FS: memfs.New(memfs.Options{})},
	}); err != nil {
		t.Fatal(err)
	}
	s.rpc = rpc.NewServer(rpc.Config{})
	defer s.rpc.Close()
	s.rpc.Register(nfs3.New(s.table))
	s.conn = s.rpc.NewConn(netip.MustParseAddrPort("203.0.113.5:40000"), netip.AddrPort{}, "tcp", false)
	handle := func(name string) wire.FileHandle3 {
		inside := pseudo.Seen{FS: tree, By: s.rpc.NewConn(netip.MustParseAddrPort("10.0.0.1:900"), netip.AddrPort{}, "tcp", true), Caller: new(rpc.Cred)}
		h := inside.Root()
		if name != "" {
			o, err := inside.Lookup(nil, h, []byte(name), new(vfs.Attr))
			if err != nil {
				t.Fatal(err)
			}
			h = o.Handle
		}
		return wire.FileHandle3{Data: s.table.Seal(nil, s.table.Root(), h)} // the handle that GETFH returns
	}
	for _, plus := range []bool{false, true} {
		if names, _ := s.names(handle(""), plus, 8192, nil); len(names) != 2 {
			t.Errorf("a stranger lists the root: %q", names)
		}
	}
	var l wire.Lookup3Res
	s.call(wire.ProcLookup, &wire.Lookup3Args{What: s.at(handle(""), "srv")}, &l)
	want(t, "LOOKUP of /srv", l.Status, wire.NFS3ErrNoEnt)
	var list wire.Readdir3Res
	s.call(wire.ProcReaddir, &wire.Readdir3Args{Dir: handle("srv"), Count: 8192}, &list)
	want(t, "READDIR of /srv", list.Status, wire.NFS3ErrStale)
}
