package server_test

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/server"
	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/server/servertest"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest/stalled"
)

// unresponsive is a server in this process with two exports. /hangs is on a file system that
// hangs when the test says so; /works is not.
type unresponsive struct {
	t     *testing.T
	m     *stalled.FileSystem
	addr  netip.AddrPort
	dial  func(context.Context, netip.AddrPort) (*servertest.Client, error)
	conn  *servertest.Client // used for the calls that hang, and for other calls meanwhile
	root  servertest.Handle  // of /hangs
	other servertest.Handle  // a file in /works
	dirs  int
}

func newUnresponsive(t *testing.T, transport string) *unresponsive {
	m := stalled.Mount(t)
	hangs, err := local.New(local.Config{Root: m.Dir, Sync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { hangs.Close() })
	works := memfs.New(memfs.Options{RootMode: 0o777})
	listen := []config.Listen{{Addr: netip.AddrPortFrom(ownLoopback(), 0)}}
	s, err := server.NewOver(&config.Config{TCP: listen, RDMA: listen},
		&export.Export{Name: "/hangs", FS: hangs, Options: export.Options{Squash: export.NoSquash}},
		&export.Export{Name: "/works", FS: works, Options: export.Options{Squash: export.NoSquash}})
	if err != nil {
		t.Fatal(err)
	}
	run(t, s)
	u := &unresponsive{t: t, m: m, addr: s.TCPAddrs()[0], dial: servertest.DialTCP}
	if transport == "rdma" {
		u.addr, u.dial = s.RDMAAddrs()[0], servertest.DialRDMA
	}
	u.conn = u.connect()
	u.root = u.must(u.conn.Mount(testContext(t), "/hangs"))
	u.other = u.must(u.conn.Create(testContext(t), u.must(u.conn.Mount(testContext(t), "/works")), "file", 0o666))
	return u
}

func (u *unresponsive) connect() *servertest.Client {
	u.t.Helper()
	c, err := u.dial(testContext(u.t), u.addr)
	if err != nil {
		u.t.Fatal(err)
	}
	u.t.Cleanup(c.Close)
	return c
}

func (u *unresponsive) must(h servertest.Handle, err error) servertest.Handle {
	u.t.Helper()
	if err != nil {
		u.t.Fatal(err)
	}
	return h
}

// A hanging is a call to a file in /hangs.
type hanging struct {
	procedure wire.Procedure
	args      servertest.Encoder
	sink      []byte
}

// calls returns one call of each procedure except NULL. It makes separate objects for
// them, so that they do not affect each other.
func (u *unresponsive) calls() []hanging {
	u.t.Helper()
	u.dirs++
	ctx, c := testContext(u.t), u.conn
	made := func(p wire.Procedure, args servertest.Encoder) {
		u.t.Helper()
		if err := c.Status(ctx, p, args); err != nil {
			u.t.Fatal(err)
		}
	}
	name := fmt.Sprint("dir", u.dirs)
	made(wire.ProcMkdir, &wire.Mkdir3Args{Where: where(u.root, name)})
	dir := u.must(c.Lookup(ctx, u.root, name))
	made(wire.ProcMkdir, &wire.Mkdir3Args{Where: where(dir, "empty")})
	made(wire.ProcSymlink, &wire.Symlink3Args{Where: where(dir, "link"), Symlink: wire.SymlinkData3{SymlinkData: xdr.Eligible{Data: []byte("text")}}})
	link, file := u.must(c.Lookup(ctx, dir, "link")), u.must(c.Create(ctx, dir, "file", 0o666))
	for _, n := range []string{"removed", "renamed"} {
		u.must(c.Create(ctx, dir, n, 0o666))
	}
	if _, err := c.Write(ctx, file, 0, make([]byte, 100), wire.Unstable); err != nil {
		u.t.Fatal(err)
	}
	fh := func(h servertest.Handle) wire.FileHandle3 { return wire.FileHandle3{Data: h} }
	return []hanging{
		{wire.ProcGetattr, &wire.Getattr3Args{Object: fh(file)}, nil},
		{wire.ProcSetattr, &wire.Setattr3Args{Object: fh(file), NewAttributes: wire.Sattr3{Mode: wire.SetMode3{SetIt: true, Mode: 0o600}}}, nil},
		{wire.ProcLookup, &wire.Lookup3Args{What: where(dir, "file")}, nil},
		{wire.ProcAccess, &wire.Access3Args{Object: fh(file), Access: 0x3f}, nil},
		{wire.ProcReadlink, &wire.Readlink3Args{Symlink: fh(link)}, make([]byte, 1024)},
		{wire.ProcRead, &wire.Read3Args{FileHandle: fh(file), Count: 100}, make([]byte, 100)},
		{wire.ProcWrite, &wire.Write3Args{FileHandle: fh(file), Count: 100, Stable: wire.FileSync, Data: xdr.Eligible{Data: make([]byte, 100)}}, nil},
		{wire.ProcCreate, &wire.Create3Args{Where: where(dir, "new"), How: wire.CreateHow3{Mode: wire.Guarded}}, nil},
		{wire.ProcMkdir, &wire.Mkdir3Args{Where: where(dir, "newdir")}, nil},
		{wire.ProcSymlink, &wire.Symlink3Args{Where: where(dir, "newlink"), Symlink: wire.SymlinkData3{SymlinkData: xdr.Eligible{Data: []byte("text")}}}, nil},
		{wire.ProcMknod, &wire.Mknod3Args{Where: where(dir, "fifo"), What: wire.MknodData3{Type: wire.NF3Fifo}}, nil},
		{wire.ProcRemove, &wire.Remove3Args{Object: where(dir, "removed")}, nil},
		{wire.ProcRmdir, &wire.Rmdir3Args{Object: where(dir, "empty")}, nil},
		{wire.ProcRename, &wire.Rename3Args{From: where(dir, "renamed"), To: where(dir, "other")}, nil},
		{wire.ProcLink, &wire.Link3Args{FileHandle: fh(file), Link: where(dir, "hard")}, nil},
		{wire.ProcReaddir, &wire.Readdir3Args{Dir: fh(dir), Count: 4096}, nil},
		{wire.ProcReaddirPlus, &wire.ReaddirPlus3Args{Dir: fh(dir), DirCount: 4096, MaxCount: 8192}, nil},
		{wire.ProcFsstat, &wire.Fsstat3Args{FSRoot: fh(dir)}, nil},
		{wire.ProcFsinfo, &wire.Fsinfo3Args{FSRoot: fh(dir)}, nil},
		{wire.ProcPathconf, &wire.Pathconf3Args{Object: fh(dir)}, nil},
		{wire.ProcCommit, &wire.Commit3Args{FileHandle: fh(file)}, nil},
	}
}

func where(dir servertest.Handle, name string) wire.DirOpArgs3 {
	return wire.DirOpArgs3{Dir: wire.FileHandle3{Data: dir}, Name: []byte(name)}
}

// goesOn fails the test unless the other export is served, over the connection with the
// hanging calls and over a new one, and a garbage collection ends.
func (u *unresponsive) goesOn() {
	u.t.Helper()
	works(u.t, testContext(u.t), u.conn, u.other, 4096)
	late := u.connect()
	works(u.t, testContext(u.t), late, u.other, 4096)
	late.Close()
	collected := make(chan struct{})
	go func() {
		defer close(collected)
		runtime.GC()
	}()
	select {
	case <-collected:
	case <-time.After(hang):
		u.t.Fatal("a garbage collection does not end")
	}
}

// The daemon answers while a file system on this machine does not. A call of each
// procedure hangs at each request of the kernel to the file system, and the other export
// is served meanwhile, even with one processor. When the file system continues, every
// call is answered.
func TestHangingFUSE(t *testing.T) {
	if !stalled.Alone(t, 1) {
		return
	}
	for _, transport := range []string{"tcp", "rdma"} {
		u := newUnresponsive(t, transport)
		for i, c := range u.calls() {
			for after, hung := 0, true; hung; after++ {
				stalled.Step("%s, %v, hanging after %d requests", transport, c.procedure, after)
				one := u.calls()[i]
				u.m.StallAfter(after)
				answer := make(outcomes, 1)
				u.conn.Start(one.procedure, one.args, one.sink, answer.done)
				hung = u.hangs(answer)
				if hung {
					u.goesOn()
				} else if after == 0 {
					t.Errorf("%v asked the file system nothing: this was no stall", c.procedure)
				}
				u.m.LetGo()
				answer.all(t)
			}
		}
	}
}

// hangs waits until a call hangs or is answered. It reports whether the call hangs.
func (u *unresponsive) hangs(answer outcomes) bool {
	u.t.Helper()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	limit := time.After(hang)
	for {
		select {
		case err := <-answer:
			answer <- err
			return false
		case <-look.C:
			if u.m.Hanging() > 0 {
				return true
			}
		case <-limit:
			u.t.Fatal("a call is neither answered nor does it hang")
		}
	}
}

// The daemon serves the other export while a call of each procedure and a mount hang at the same
// time, even with one processor.
func TestHangingFUSEUnderAllProcedures(t *testing.T) {
	if !stalled.Alone(t, 1) {
		return
	}
	for _, transport := range []string{"tcp", "rdma"} {
		stalled.Step("%s", transport)
		u := newUnresponsive(t, transport)
		calls := u.calls()
		u.m.Stall()
		answers := make(outcomes, len(calls))
		for _, c := range calls {
			u.conn.Start(c.procedure, c.args, c.sink, answers.done)
		}
		mounted := make(chan error, 1)
		second := u.connect()
		go func() {
			_, err := second.Mount(testContext(t), "/hangs/dir1")
			mounted <- err
		}()
		// Not all calls reach the file system, because calls that change or sync one directory
		// wait for each other.
		u.m.AwaitHanging(10)
		u.goesOn()
		answers.none(t)
		u.m.LetGo()
		answers.all(t)
		if err := <-mounted; err != nil {
			t.Errorf("MNT: %v", err)
		}
	}
}
