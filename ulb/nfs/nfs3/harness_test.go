package nfs3_test

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest"
)

// A site is a server with one export, /, of a file system in memory, and a client that calls as
// user uid.
type site struct {
	t testing.TB
	// fs is the file system. The export may use a wrapper of it.
	fs      *memfs.FS
	export  *export.Export
	table   *export.Table
	program *nfs3.Program
	rpc     *rpc.Server
	pool    *mem.Pool
	share   *mem.Share
	conn    *rpc.Conn
	room    rpc.Room
	places  []int
	uid     uint32
	xid     uint32
	root    wire.FileHandle3
	// mayPanic is true if the test causes a panic on purpose.
	mayPanic bool
}

func newSite(t testing.TB) *site {
	t.Helper()
	fs := memfs.New(memfs.Options{RootMode: 0o777})
	return newSiteOver(t, fs, fs)
}

// manners lists wrappers of a file system that differ in the calls that have to wait. A
// procedure must do the same whether it runs once, on the goroutine that received the call, or
// runs again because a call of the file system had to wait.
var manners = []struct {
	name string
	of   func(fs vfs.FileSystem) vfs.FileSystem
}{
	{"answering", func(fs vfs.FileSystem) vfs.FileSystem { return fs }},
	{"hesitant", func(fs vfs.FileSystem) vfs.FileSystem { return vfstest.Hesitant(fs) }},
	{"hesitant about attributes", func(fs vfs.FileSystem) vfs.FileSystem { return vfstest.Hesitant(fs, "GetAttr") }},
}

// eachSite runs a test on one site for each of manners.
func eachSite(t *testing.T, test func(t *testing.T, s *site)) {
	eachSiteOf(t, memfs.Options{RootMode: 0o777}, test)
}

func eachSiteOf(t *testing.T, opt memfs.Options, test func(t *testing.T, s *site)) {
	for _, m := range manners {
		t.Run(m.name, func(t *testing.T) {
			fs := memfs.New(opt)
			test(t, newSiteOver(t, fs, m.of(fs)))
		})
	}
}

// newSiteOver returns a site over fs. Its export uses exported, which is fs or a wrapper of it.
func newSiteOver(t testing.TB, fs *memfs.FS, exported vfs.FileSystem) *site {
	t.Helper()
	s := &site{t: t, fs: fs, room: rpctest.TCPRoom}
	s.export = &export.Export{Name: "/", FS: exported, Options: export.Options{Squash: export.NoSquash, AnonUID: export.Nobody, AnonGID: export.Nobody}}
	s.table = export.NewTable([export.KeySize]byte{7})
	if err := s.table.Replace([]*export.Export{s.export}); err != nil {
		t.Fatal(err)
	}
	var err error
	if s.pool, err = mem.NewPool(mem.Config{Ceiling: 32 << 20}); err != nil {
		t.Fatal(err)
	}
	s.share = s.pool.NewShare()
	s.rpc = rpc.NewServer(rpc.Config{Pool: s.pool, Panicked: func(p *rpc.Panic) {
		if !s.mayPanic {
			s.t.Errorf("%s panicked: %v\n%s", p.Procedure, p.Value, p.Stack)
		}
	}})
	s.program = nfs3.New(s.table)
	s.rpc.Register(s.program)
	s.conn = s.rpc.NewConn(netip.MustParseAddrPort("10.1.2.3:700"), netip.AddrPort{}, "tcp", true)
	s.root = wire.FileHandle3{Data: s.table.Seal(nil, s.export, exported.Root())}
	t.Cleanup(func() {
		s.rpc.Close()
		if n := s.pool.Stats().InUse; n != 0 {
			t.Errorf("%d bytes of payload memory were not given back", n)
		}
		s.share.Close()
		s.pool.Close()
	})
	return s
}

type encoder interface{ Encode(w *xdr.Writer) }
type decoder interface{ Decode(d *xdr.Decoder) }

// message returns the bytes of a call with a new XID.
func (s *site) message(p wire.Procedure, args encoder) []byte {
	s.xid++
	h := rpc.CallHeader{XID: s.xid, Program: wire.Program, Version: wire.Version, Procedure: uint32(p)}
	var err error
	if h.Cred, err = rpc.AuthSysCred(0, "client", s.uid, s.uid, nil); err != nil {
		s.t.Fatal(err)
	}
	return rpctest.CallMessage(h, func(w *xdr.Writer) {
		if args != nil {
			args.Encode(w)
		}
	})
}

// run passes a message to the server, as a transport does.
func (s *site) run(message []byte) *rpctest.Call {
	c := rpctest.NewCall(s.conn, message)
	c.Space, c.Places = s.room, s.places
	return s.serve(c)
}

func (s *site) serve(c *rpctest.Call) *rpctest.Call {
	plan, ok := s.rpc.Admit(&c.Call)
	if ok {
		if plan.Results > 0 {
			if c.Memory, ok = s.share.TryGetIn(plan.Group, plan.Results); !ok {
				s.t.Fatalf("no memory for %d bytes", plan.Results)
			}
			c.ResultsAt = 0
		}
		s.rpc.Serve(&c.Call)
	}
	await.Receive(s.t, "the call is answered", c.Done)
	if c.Memory != nil {
		c.Memory.Release()
		c.Memory = nil
	}
	return c
}

// call makes one call and decodes its results, which must be well formed and fit into a Linux client's room
// (linuxRooms).
func (s *site) call(p wire.Procedure, args encoder, res decoder) {
	s.t.Helper()
	d, err := s.run(s.message(p, args)).Results()
	if err != nil {
		s.t.Fatalf("%v: %v", p, err)
	}
	if room := linuxRoom(p, args); d.Len() > room {
		s.t.Errorf("results of %v take %d bytes; a Linux client has room for %d", p, d.Len(), room)
	}
	if res != nil {
		res.Decode(d)
	}
	if err := d.Finish(); err != nil {
		s.t.Fatalf("%v: results do not decode: %v", p, err)
	}
}

func (s *site) at(dir wire.FileHandle3, name string) wire.DirOpArgs3 {
	return wire.DirOpArgs3{Dir: dir, Name: []byte(name)}
}

func want[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// mode returns attributes that set only the permission bits.
func mode(m uint32) wire.Sattr3 { return wire.Sattr3{Mode: wire.SetMode3{SetIt: true, Mode: m}} }

// create makes a file and returns its handle.
func (s *site) create(dir wire.FileHandle3, name string, m uint32) wire.FileHandle3 {
	s.t.Helper()
	var res wire.Create3Res
	s.call(wire.ProcCreate, &wire.Create3Args{Where: s.at(dir, name), How: wire.CreateHow3{Mode: wire.Guarded, ObjAttributes: mode(m)}}, &res)
	want(s.t, "CREATE "+name, res.Status, wire.NFS3OK)
	return wire.FileHandle3{Data: append([]byte(nil), res.ResOK.Obj.Handle.Data...)}
}

func (s *site) mkdir(dir wire.FileHandle3, name string) wire.FileHandle3 {
	s.t.Helper()
	var res wire.Mkdir3Res
	s.call(wire.ProcMkdir, &wire.Mkdir3Args{Where: s.at(dir, name), Attributes: mode(0o777)}, &res)
	want(s.t, "MKDIR "+name, res.Status, wire.NFS3OK)
	return wire.FileHandle3{Data: append([]byte(nil), res.ResOK.Obj.Handle.Data...)}
}

func (s *site) write(fh wire.FileHandle3, offset uint64, data string, how wire.StableHow) wire.Write3Res {
	s.t.Helper()
	var res wire.Write3Res
	s.call(wire.ProcWrite, &wire.Write3Args{
		FileHandle: fh, Offset: offset, Count: uint32(len(data)), Stable: how, Data: xdr.Eligible{Data: []byte(data)},
	}, &res)
	return res
}

func (s *site) read(fh wire.FileHandle3, offset uint64, count uint32) (wire.Read3Res, string) {
	s.t.Helper()
	var res wire.Read3Res
	s.call(wire.ProcRead, &wire.Read3Args{FileHandle: fh, Offset: offset, Count: count}, &res)
	return res, string(res.ResOK.Data.Data)
}

func (s *site) getattr(fh wire.FileHandle3) wire.Fattr3 {
	s.t.Helper()
	var res wire.Getattr3Res
	s.call(wire.ProcGetattr, &wire.Getattr3Args{Object: fh}, &res)
	want(s.t, "GETATTR", res.Status, wire.NFS3OK)
	return res.ResOK.ObjAttributes
}

// names lists a directory by READDIR or READDIRPLUS, count bytes at a time. It calls between
// after each call that does not end the listing.
func (s *site) names(dir wire.FileHandle3, plus bool, count uint32, between func()) (names []string, calls int) {
	s.t.Helper()
	var cookie uint64
	for {
		var eof bool
		calls++
		if plus {
			var res wire.ReaddirPlus3Res
			s.call(wire.ProcReaddirPlus, &wire.ReaddirPlus3Args{Dir: dir, Cookie: cookie, DirCount: count, MaxCount: count}, &res)
			want(s.t, "READDIRPLUS", res.Status, wire.NFS3OK)
			var e wire.EntryPlus3
			for res.ResOK.Reply.Entries.Next(&e) {
				names, cookie = append(names, string(e.Name)), e.Cookie
				if !e.NameAttributes.AttributesFollow || !e.NameHandle.HandleFollows {
					s.t.Fatalf("%s has no attributes or handle", e.Name)
				}
				want(s.t, "fileid of "+string(e.Name), e.FileID, e.NameAttributes.Attributes.FileID)
			}
			eof = res.ResOK.Reply.EOF
		} else {
			var res wire.Readdir3Res
			s.call(wire.ProcReaddir, &wire.Readdir3Args{Dir: dir, Cookie: cookie, Count: count}, &res)
			want(s.t, "READDIR", res.Status, wire.NFS3OK)
			var e wire.Entry3
			for res.ResOK.Reply.Entries.Next(&e) {
				names, cookie = append(names, string(e.Name)), e.Cookie
			}
			eof = res.ResOK.Reply.EOF
		}
		if eof {
			return names, calls
		}
		if calls > 100000 {
			s.t.Fatal("the listing does not end")
		}
		if between != nil {
			between()
		}
	}
}

func name(i int) string { return fmt.Sprintf("entry-%05d", i) }

func eligible(s string) xdr.Eligible { return xdr.Eligible{Data: []byte(s)} }

func wantReply(t *testing.T, err error, stat rpc.AcceptStat) {
	t.Helper()
	var r *rpc.ReplyError
	if !errors.As(err, &r) || r.Stat != stat {
		t.Errorf("reply %v, want accept status %d", err, stat)
	}
}
