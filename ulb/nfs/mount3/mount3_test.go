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
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest"
)

type site struct {
	t       *testing.T
	fs      *memfs.FS
	table   *export.Table
	rpc     *rpc.Server
	program *mount3.Program
	conn    *rpc.Conn
	room    rpc.Room
	xid     uint32
}

// A manner is a wrapper of a file system. Manners differ in the calls that have to wait.
type manner struct {
	name string
	of   func(fs vfs.FileSystem) vfs.FileSystem
}

var manners = []manner{
	{"answering", func(fs vfs.FileSystem) vfs.FileSystem { return fs }},
	{"hesitant", func(fs vfs.FileSystem) vfs.FileSystem { return vfstest.Hesitant(fs) }},
	{"hesitant about attributes", func(fs vfs.FileSystem) vfs.FileSystem { return vfstest.Hesitant(fs, "GetAttr") }},
}

// each runs a test once for each of manners.
func each(t *testing.T, test func(t *testing.T, m manner)) {
	for _, m := range manners {
		t.Run(m.name, func(t *testing.T) { test(t, m) })
	}
}

func newSite(t *testing.T, m manner, exports ...*export.Export) *site {
	s := &site{t: t, fs: memfs.New(memfs.Options{RootMode: 0o755}), room: rpctest.TCPRoom}
	for _, e := range exports {
		e.FS = m.of(s.fs)
	}
	s.table = export.NewTable([export.KeySize]byte{1})
	if err := s.table.Replace(exports); err != nil {
		t.Fatal(err)
	}
	s.rpc = rpc.NewServer(rpc.Config{Panicked: func(p *rpc.Panic) {
		s.t.Errorf("%s panicked: %v\n%s", p.Procedure, p.Value, p.Stack)
	}})
	s.program = mount3.New(s.table)
	s.rpc.Register(s.program)
	t.Cleanup(s.rpc.Close)
	s.from("10.0.0.1:700", true)
	return s
}

func (s *site) from(addr string, privileged bool) {
	s.conn = s.rpc.NewConn(netip.MustParseAddrPort(addr), netip.AddrPort{}, "tcp", privileged)
}

// call makes a call as user 0 and returns a decoder of its results.
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

// mkdir makes a directory in the root, as user 0.
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
	each(t, func(t *testing.T, m manner) {
		s := newSite(t, m, &export.Export{Name: "/srv", Options: export.Options{Squash: export.NoSquash}})
		sub := s.mkdir("sub", 0o755)
		for path, want := range map[string]vfs.Handle{"/srv": s.fs.Root(), "/srv/": s.fs.Root(), "/srv/sub": sub, "//srv//sub/.": sub} {
			res := s.mnt(path)
			if res.Status != wire.OK {
				t.Errorf("MNT %s: %v", path, res.Status)
				continue
			}
			if o, err := s.table.Find(res.ResOK.FileHandle); err != nil || o.Handle != want {
				t.Errorf("MNT %s: handle %+v, %v", path, o, err)
			}
			var flavor int32
			if !res.ResOK.AuthFlavors.Next(&flavor) || flavor != int32(rpc.AuthSys) {
				t.Errorf("MNT %s: flavor %d", path, flavor)
			}
		}
	})
}

func TestMntRefusesByName(t *testing.T) {
	each(t, func(t *testing.T, m manner) {
		s := newSite(t, m,
			&export.Export{Name: "/srv", Options: export.Options{Squash: export.NoSquash}},
			&export.Export{Name: "/near", Clients: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}},
			&export.Export{Name: "/squashed", Options: export.Options{AnonUID: 99, AnonGID: 99}},
			&export.Export{Name: "/secure", Options: export.Options{Secure: true}})
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
		// This directory lies below a directory that the squashed caller may not search.
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
	})
}

// Each refused MNT is counted as failed, and reported with a reason that the client does not
// get.
func TestRefusalsAreToldOfAndCounted(t *testing.T) {
	each(t, testRefusalsAreToldOf)
}

func testRefusalsAreToldOf(t *testing.T, m manner) {
	s := newSite(t, m,
		&export.Export{Name: "/srv", Options: export.Options{Squash: export.NoSquash}},
		&export.Export{Name: "/near", Clients: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}},
		&export.Export{Name: "/both", Clients: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}, Options: export.Options{Secure: true}},
		&export.Export{Name: "/secure", Options: export.Options{Secure: true}})
	var told []export.Refusal
	s.table.OnRefusal = func(r *export.Refusal) { told = append(told, *r) }
	s.from("10.0.0.1:5000", false)
	want := []struct {
		path, export string
		status       wire.Stat3
		reason       export.Reason
	}{
		{"/home", "", wire.ErrNoEnt, export.NoExport},
		{"/near/x", "/near", wire.ErrAccess, export.NotAClient},
		{"/both", "/both", wire.ErrAccess, export.NotAClient},
		{"/secure", "/secure", wire.ErrAccess, export.UnprivilegedPort},
		{"/srv/none", "/srv", wire.ErrNoEnt, export.FileSystem},
	}
	for _, w := range want {
		if got := s.mnt(w.path).Status; got != w.status {
			t.Errorf("MNT %s: %v, want %v", w.path, got, w.status)
		}
	}
	if got := s.mnt("/srv").Status; got != wire.OK {
		t.Errorf("MNT /srv: %v", got)
	}
	if len(told) != len(want) {
		t.Fatalf("told of %d, want %d: %+v", len(told), len(want), told)
	}
	for i, w := range want {
		name := ""
		if told[i].Export != nil {
			name = told[i].Export.Name
		}
		if r := told[i]; r.Path != w.path || name != w.export || r.Status != w.status || r.Reason != w.reason || r.Client != s.conn.Peer {
			t.Errorf("told of %+v, want %+v", r, w)
		}
	}
	for _, p := range s.rpc.Stats().Procedures {
		if p.Name == "MNT" && (p.Calls[rpc.StatusFailed] != uint64(len(want)) || p.Calls[rpc.StatusSuccess] != 1) {
			t.Errorf("counted %v", p.Calls)
		}
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
	each(t, func(t *testing.T, m manner) {
		s := newSite(t, m, &export.Export{Name: "/a", Options: export.Options{Squash: export.NoSquash}}, &export.Export{Name: "/b", Options: export.Options{Squash: export.NoSquash}})
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
	})
}

// exports returns a line for each export in the reply to EXPORT: its name and its groups.
func (s *site) exports() (all []string) {
	s.t.Helper()
	d := s.call(wire.ProcExport, nil)
	var l wire.ExportList
	l.Decode(d)
	if err := d.Finish(); err != nil {
		s.t.Fatal(err)
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

func TestExportListsDirectoriesAndNetworks(t *testing.T) {
	each(t, func(t *testing.T, m manner) {
		s := newSite(t, m,
			&export.Export{Name: "/srv/a", Clients: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}},
			&export.Export{Name: "/b"})
		if got, want := fmt.Sprint(s.exports()), "[/srv/a 10.0.0.0/8 fd00::/8 /b]"; got != want {
			t.Errorf("EXPORT %s, want %s", got, want)
		}
		// The reply's header takes 24 bytes, the first export 56, the second 16, and the end of
		// the list 4.
		s.room = rpc.Room{Inline: 24 + 56 + 12 + 4}
		if got := s.exports(); len(got) != 1 {
			t.Errorf("EXPORT into a small reply: %v", got)
		}
	})
}

// A client learns nothing about exports that do not serve its address: neither their names and
// networks, nor which clients have mounted them. An unprivileged port makes no difference,
// because ordinary users run showmount.
func TestListsShowOnlyExportsThatServeTheCaller(t *testing.T) {
	each(t, func(t *testing.T, m manner) {
		s := newSite(t, m,
			&export.Export{Name: "/near", Options: export.Options{Squash: export.NoSquash}, Clients: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}},
			&export.Export{Name: "/near/far", Options: export.Options{Squash: export.NoSquash}, Clients: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}},
			&export.Export{Name: "/all", Options: export.Options{Squash: export.NoSquash, Secure: true}})
		s.mnt("/near")
		s.mnt("/all")
		s.from("192.0.2.1:700", true)
		s.mnt("/near/far")
		for _, c := range []struct{ from, exports, mounts string }{
			{"10.9.9.9:40000", "[/near 10.0.0.0/8 fd00::/8 /all]", "[10.0.0.1:/near 10.0.0.1:/all]"},
			{"[fd00::1]:40000", "[/near 10.0.0.0/8 fd00::/8 /all]", "[10.0.0.1:/near 10.0.0.1:/all]"},
			{"192.0.2.77:40000", "[/near/far 192.0.2.0/24 /all]", "[10.0.0.1:/all 192.0.2.1:/near/far]"},
			{"203.0.113.5:700", "[/all]", "[10.0.0.1:/all]"},
		} {
			s.from(c.from, false)
			if got := fmt.Sprint(s.exports()); got != c.exports {
				t.Errorf("EXPORT from %s: %s, want %s", c.from, got, c.exports)
			}
			if got := fmt.Sprint(s.dump()); got != c.mounts {
				t.Errorf("DUMP from %s: %s, want %s", c.from, got, c.mounts)
			}
		}
	})
}

func TestDumpEndsBeforeTheReplyIsFull(t *testing.T) {
	s := newSite(t, manners[0], &export.Export{Name: "/a", Options: export.Options{Squash: export.NoSquash}})
	for i := range 4200 {
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

// FuzzCall makes calls with any arguments of any procedure. Each call gets an answer without a
// panic, whichever calls of the file system have to wait.
func FuzzCall(f *testing.F) {
	f.Add(uint32(1), []byte{0, 0, 0, 4, '/', 's', 'r', 'v'})
	f.Add(uint32(3), []byte{0xff, 0xff, 0xff, 0xff})
	f.Add(uint32(5), []byte{})
	f.Fuzz(func(t *testing.T, p uint32, args []byte) {
		for _, m := range manners {
			s := newSite(t, m, &export.Export{Name: "/srv", Options: export.Options{Squash: export.NoSquash}})
			h := rpc.CallHeader{XID: 1, Program: wire.Program, Version: wire.Version, Procedure: p % 7}
			c := rpctest.NewCall(s.conn, append(rpctest.CallMessage(h, nil), args...)).Run(s.rpc)
			if c.End != rpctest.Sent {
				t.Fatalf("%s: end %v", m.name, c.End)
			}
		}
	})
}
