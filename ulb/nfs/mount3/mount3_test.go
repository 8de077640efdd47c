package mount3_test

import (
	"fmt"
	"net/netip"
	"syscall"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/mount3"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/mount3wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
)

type site struct {
	t     *testing.T
	fs    *memfs.FS
	table *export.Table
	rpc   *rpc.Server
	conn  *rpc.Conn
	room  rpc.Room
	xid   uint32
}

func newSite(t *testing.T, exports ...*export.Export) *site {
	s := &site{t: t, fs: memfs.New(memfs.Options{RootMode: 0o755}), room: rpctest.TCPRoom}
	for _, e := range exports {
		e.FS = s.fs
	}
	s.table = export.NewTable([export.KeySize]byte{1})
	if err := s.table.Replace(exports); err != nil {
		t.Fatal(err)
	}
	s.rpc = rpc.NewServer(rpc.Config{})
	s.rpc.Register(mount3.New(s.table))
	t.Cleanup(s.rpc.Close)
	s.from("10.0.0.1:700", true)
	return s
}

func (s *site) from(addr string, privileged bool) {
	s.conn = s.rpc.NewConn(netip.MustParseAddrPort(addr), netip.AddrPort{}, "tcp", privileged)
}

// call makes a call as user 0 and returns the cursor at its results.
func (s *site) call(p wire.Procedure, args func(w *xdr.Writer)) *xdr.Decoder {
	s.t.Helper()
	s.xid++
	h := rpc.CallHeader{XID: s.xid, Program: wire.Program, Version: wire.Version, Procedure: uint32(p)}
	var err error
	if h.Cred, err = rpc.AuthSysCred(0, "client", 0, 0, nil); err != nil {
		s.t.Fatal(err)
	}
	c := rpctest.NewCall(s.conn, rpctest.CallMessage(h, args))
	c.Space = s.room
	d, err := c.Run(s.rpc).Results()
	if err != nil {
		s.t.Fatalf("%v: %v", p, err)
	}
	return d
}

func (s *site) mnt(path string) wire.MountRes3 {
	s.t.Helper()
	d := s.call(wire.ProcMnt, func(w *xdr.Writer) { w.String(path) })
	var res wire.MountRes3
	res.Decode(d)
	if err := d.Finish(); err != nil {
		s.t.Fatal(err)
	}
	return res
}

// mkdir makes a directory beneath the root, as user 0.
func (s *site) mkdir(name string, mode uint32) vfs.Handle {
	s.t.Helper()
	op := vfs.Op{Cred: &vfs.Cred{}}
	o, _, err := s.fs.Mkdir(&op, s.fs.Root(), []byte(name), &vfs.SetAttr{SetMode: true, Mode: mode})
	if err != nil {
		s.t.Fatal(err)
	}
	return o.Handle
}

func TestMntAnswersWithAHandleAndAFlavor(t *testing.T) {
	s := newSite(t, &export.Export{Name: "/srv", Squash: export.NoSquash})
	sub := s.mkdir("sub", 0o755)
	for path, want := range map[string]vfs.Handle{"/srv": s.fs.Root(), "/srv/": s.fs.Root(), "/srv/sub": sub, "//srv//sub/.": sub} {
		res := s.mnt(path)
		if res.Status != wire.OK {
			t.Errorf("MNT %s: %v", path, res.Status)
			continue
		}
		if _, h, err := s.table.Open(res.ResOK.FileHandle); err != nil || h != want {
			t.Errorf("MNT %s: handle %v, %v", path, h, err)
		}
		var flavor int32
		if !res.ResOK.AuthFlavors.Next(&flavor) || flavor != int32(rpc.AuthSys) {
			t.Errorf("MNT %s: flavor %d", path, flavor)
		}
	}
}

func TestMntRefusesByName(t *testing.T) {
	s := newSite(t,
		&export.Export{Name: "/srv", Squash: export.NoSquash},
		&export.Export{Name: "/near", Clients: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}},
		&export.Export{Name: "/squashed", AnonUID: 99, AnonGID: 99},
		&export.Export{Name: "/secure", Secure: true})
	s.mkdir("private", 0o700)
	op := vfs.Op{Cred: &vfs.Cred{}}
	if _, _, err := s.fs.Create(&op, s.fs.Root(), []byte("file"), &vfs.CreateHow{}); err != nil {
		t.Fatal(err)
	}
	s.from("10.0.0.1:5000", false)
	for path, want := range map[string]wire.Stat3{
		"/home": wire.ErrNoEnt, "/srv/none": wire.ErrNoEnt, "/srv/file": wire.ErrNotDir, "/srv/file/x": wire.ErrNotDir,
		"/near": wire.ErrAccess, "/secure": wire.ErrAccess, "/srv/private": wire.OK,
	} {
		if got := s.mnt(path).Status; got != want {
			t.Errorf("MNT %s: %v, want %v", path, got, want)
		}
	}
	// Beneath a directory that the squashed caller may not search.
	inner := s.mkdir("locked", 0o700)
	if _, _, err := s.fs.Mkdir(&op, inner, []byte("in"), &vfs.SetAttr{}); err != nil {
		t.Fatal(err)
	}
	if got := s.mnt("/squashed/locked/in").Status; got != wire.ErrAccess {
		t.Errorf("MNT as the squashed user: %v", got)
	}
	s.fs.Fail(memfs.GetAttr, syscall.EIO)
	if got := s.mnt("/srv").Status; got != wire.ErrIO {
		t.Errorf("MNT of a broken file system: %v", got)
	}
}

func (s *site) dump() (all []string) {
	d := s.call(wire.ProcDump, nil)
	var l wire.MountList
	l.Decode(d)
	if err := d.Finish(); err != nil {
		s.t.Fatal(err)
	}
	var m wire.Mount
	for l.Next(&m) {
		all = append(all, string(m.Hostname)+":"+string(m.Directory))
	}
	return all
}

func TestDumpFollowsMntAndUmnt(t *testing.T) {
	s := newSite(t, &export.Export{Name: "/a", Squash: export.NoSquash}, &export.Export{Name: "/b", Squash: export.NoSquash})
	s.mnt("/a")
	s.mnt("/a")
	s.mnt("/b")
	s.mnt("/none")
	s.from("10.0.0.2:700", true)
	s.mnt("/b")
	if got, want := fmt.Sprint(s.dump()), "[10.0.0.1:/a 10.0.0.1:/b 10.0.0.2:/b]"; got != want {
		t.Errorf("DUMP %s, want %s", got, want)
	}
	s.call(wire.ProcUmnt, func(w *xdr.Writer) { w.String("/b") })
	s.from("10.0.0.1:701", true)
	s.call(wire.ProcUmntall, nil)
	if got := s.dump(); len(got) != 0 {
		t.Errorf("DUMP after all have unmounted: %v", got)
	}
}

func TestExportListsDirectoriesAndNetworks(t *testing.T) {
	s := newSite(t,
		&export.Export{Name: "/srv/a", Clients: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}},
		&export.Export{Name: "/b"})
	list := func() (all []string) {
		d := s.call(wire.ProcExport, nil)
		var l wire.ExportList
		l.Decode(d)
		if err := d.Finish(); err != nil {
			t.Fatal(err)
		}
		var e wire.Export
		for l.Next(&e) {
			line := string(e.Dir)
			var g wire.Group
			for e.Groups.Next(&g) {
				line += " " + string(g.Name)
			}
			all = append(all, line)
		}
		return all
	}
	if got, want := fmt.Sprint(list()), "[/srv/a 10.0.0.0/8 fd00::/8 /b]"; got != want {
		t.Errorf("EXPORT %s, want %s", got, want)
	}
	s.room = rpc.Room{Inline: 100}
	if got := list(); len(got) != 1 {
		t.Errorf("EXPORT into a small reply: %v", got)
	}
}

func TestDumpEndsBeforeTheReplyIsFull(t *testing.T) {
	s := newSite(t, &export.Export{Name: "/a", Squash: export.NoSquash})
	for i := range 5000 {
		s.from(fmt.Sprintf("10.%d.%d.1:700", i/250, i%250), true)
		s.mnt("/a")
	}
	if n := len(s.dump()); n == 0 || n > 4096 {
		t.Errorf("DUMP lists %d mounts", n)
	}
	s.room = rpc.Room{Inline: 4000}
	if n := len(s.dump()); n == 0 || n > 4000/20 {
		t.Errorf("DUMP into 4000 bytes lists %d mounts", n)
	}
}

func FuzzCall(f *testing.F) {
	f.Add(uint32(1), []byte{0, 0, 0, 4, '/', 's', 'r', 'v'})
	f.Add(uint32(3), []byte{0xff, 0xff, 0xff, 0xff})
	f.Add(uint32(5), []byte{})
	f.Fuzz(func(t *testing.T, p uint32, args []byte) {
		s := newSite(t, &export.Export{Name: "/srv", Squash: export.NoSquash})
		h := rpc.CallHeader{XID: 1, Program: wire.Program, Version: wire.Version, Procedure: p % 7}
		c := rpctest.NewCall(s.conn, append(rpctest.CallMessage(h, nil), args...)).Run(s.rpc)
		if c.End != rpctest.Sent {
			t.Fatalf("end %v", c.End)
		}
	})
}
