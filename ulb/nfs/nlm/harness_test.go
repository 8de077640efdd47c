package nlm_test

import (
	"net/netip"
	"sync"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nlm"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nlm4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest"
)

// A site is a server with the export / of a file system in memory, which has a file of user 1000.
type site struct {
	t       testing.TB
	fs      *memfs.FS
	export  *export.Export
	table   *export.Table
	state   *state.Manager
	program *nlm.Program
	rpc     *rpc.Server
	xid     uint32
	file    wire.Object
	handle  vfs.Handle
	ended   bool
}

type options struct {
	export  *export.Export
	of      func(vfs.FileSystem) vfs.FileSystem
	records state.Records
	dial    func(netip.Addr) rpc.Dialer
	send    func(from, to netip.AddrPort, message []byte)
}

func newSite(t testing.TB, o options) *site {
	t.Helper()
	s := &site{t: t, fs: memfs.New(memfs.Options{RootMode: 0o777})}
	var shown vfs.FileSystem = s.fs
	if o.of != nil {
		shown = o.of(s.fs)
	}
	if s.export = o.export; s.export == nil {
		s.export = &export.Export{}
	}
	s.export.Name, s.export.FS, s.export.AnonUID, s.export.AnonGID = "/", shown, export.Nobody, export.Nobody
	s.table = export.NewTable([export.KeySize]byte{7})
	if err := s.table.Replace([]*export.Export{s.export}); err != nil {
		t.Fatal(err)
	}
	var err error
	if s.state, err = state.New(state.Config{Records: o.records}); err != nil {
		t.Fatal(err)
	}
	s.rpc = rpc.NewServer(rpc.Config{Panicked: func(p *rpc.Panic) {
		t.Errorf("%s panicked: %v\n%s", p.Procedure, p.Value, p.Stack)
	}})
	s.program = nlm.New(nlm.Config{Exports: s.table, State: s.state, Dial: o.dial, Send: o.send, Machine: "the server"})
	s.rpc.Register(s.program)
	for _, older := range s.program.Older() {
		s.rpc.Register(older)
	}
	t.Cleanup(s.end)
	s.file, s.handle = s.create("file", 0o644)
	return s
}

// end closes the server. It may be called again.
func (s *site) end() {
	if !s.ended {
		s.ended = true
		s.rpc.Close()
		s.program.Close()
		s.state.Close()
	}
}

// create makes a file of user 1000 and returns its handle, as clients see it and as the file system does.
func (s *site) create(name string, mode uint32) (wire.Object, vfs.Handle) {
	s.t.Helper()
	op := vfs.Op{Cred: &vfs.Cred{UID: 1000, GID: 1000}}
	o, _, err := s.fs.Create(&op, s.fs.Root(), []byte(name), &vfs.CreateHow{Attr: vfs.SetAttr{SetMode: true, Mode: mode}})
	if err != nil {
		s.t.Fatal(err)
	}
	return s.seal(o.Handle), o.Handle
}

func (s *site) seal(h vfs.Handle) wire.Object { return s.table.Seal(nil, s.export, h) }

// A host calls from one address as one user.
type host struct {
	*site
	conn *rpc.Conn
	name string
	uid  uint32
}

func (s *site) host(name, address string, uid uint32) *host {
	return &host{s, s.rpc.NewConn(netip.MustParseAddrPort(address), netip.MustParseAddrPort("10.0.0.1:2049"), "tcp", true), name, uid}
}

type encoder interface{ Encode(w *xdr.Writer) }
type decoder interface{ Decode(d *xdr.Decoder) }

// message returns the bytes of a call with a new XID.
func (h *host) message(p wire.Procedure, args encoder) []byte {
	return h.messageOf(wire.Version, p, args)
}

// messageOf is message for a version.
func (h *host) messageOf(version uint32, p wire.Procedure, args encoder) []byte {
	h.xid++
	header := rpc.CallHeader{XID: h.xid, Program: wire.Program, Version: version, Procedure: uint32(p)}
	var err error
	if header.Cred, err = rpc.AuthSysCred(0, "machine", h.uid, h.uid, nil); err != nil {
		h.t.Fatal(err)
	}
	return rpctest.CallMessage(header, func(w *xdr.Writer) {
		if args != nil {
			args.Encode(w)
		}
	})
}

// run passes a message to the server, as a transport does.
func (h *host) run(message []byte) *rpctest.Call {
	h.t.Helper()
	c := rpctest.NewCall(h.conn, message)
	c.Space = rpctest.TCPRoom
	if _, ok := h.rpc.Admit(&c.Call); ok {
		h.rpc.Serve(&c.Call)
	}
	await.Receive(h.t, "the call is answered", c.Done)
	return c
}

func (h *host) call(p wire.Procedure, args encoder, res decoder) {
	h.t.Helper()
	d, err := h.run(h.message(p, args)).Results()
	if err != nil {
		h.t.Fatalf("%v: %v", p, err)
	}
	if res != nil {
		res.Decode(d)
	}
	if err := d.Finish(); err != nil {
		h.t.Fatalf("%v: results do not decode: %v", p, err)
	}
}

// A want names a lock: the owner (svid), the range, and whether it is exclusive.
type want struct {
	svid           int32
	offset, length uint64
	exclusive      bool
}

func (h *host) lock4(w want) wire.Lock4 {
	return wire.Lock4{CallerName: []byte(h.name), FileHandle: h.file, OH: []byte("owner at " + h.name), SVID: w.svid, Offset: w.offset, Length: w.length}
}

var cookie = wire.Object("a cookie")

func (h *host) res(p wire.Procedure, args encoder) wire.Stat4 {
	h.t.Helper()
	var res wire.Res4
	h.call(p, args, &res)
	if string(res.Cookie) != string(cookie) {
		h.t.Errorf("%v: cookie %q", p, res.Cookie)
	}
	return res.Stat
}

func (h *host) lock(w want) wire.Stat4 {
	h.t.Helper()
	return h.res(wire.ProcLock, &wire.LockArgs4{Cookie: cookie, Exclusive: w.exclusive, Lock: h.lock4(w)})
}

func (h *host) unlock(w want) wire.Stat4 {
	h.t.Helper()
	return h.res(wire.ProcUnlock, &wire.UnlockArgs4{Cookie: cookie, Lock: h.lock4(w)})
}

func (h *host) cancel(w want) wire.Stat4 {
	h.t.Helper()
	return h.res(wire.ProcCancel, &wire.CancelArgs4{Cookie: cookie, Block: true, Exclusive: w.exclusive, Lock: h.lock4(w)})
}

func (h *host) test(w want) wire.TestReply4 {
	h.t.Helper()
	var res wire.TestRes4
	h.call(wire.ProcTest, &wire.TestArgs4{Cookie: cookie, Exclusive: w.exclusive, Lock: h.lock4(w)}, &res)
	if string(res.Cookie) != string(cookie) {
		h.t.Errorf("TEST: cookie %q", res.Cookie)
	}
	return res.Reply
}

func is[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, not %v", what, got, want)
	}
}

// A claiming file system has claims, which conflict with what the test sets in local.
type claiming struct {
	vfs.FileSystem
	local, held vfs.Claims
	err         error
	claims      int
	mu          sync.Mutex
}

func (c *claiming) Claim(_ vfs.Handle, start, length uint64, mode vfs.ClaimMode) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.claims++; c.err != nil {
		return c.err
	}
	if _, found, _ := c.local.Against(start, length, mode); found {
		return errAgain
	}
	return c.held.Set(start, length, mode)
}

func (c *claiming) TestClaim(_ vfs.Handle, start, length uint64, mode vfs.ClaimMode) (vfs.Claimed, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.local.Against(start, length, mode)
}

// process sets the lock of a process of this machine.
func (c *claiming) process(start, length uint64, mode vfs.ClaimMode) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.local.Set(start, length, mode)
}

// fail makes claims fail.
func (c *claiming) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

// count returns the number of claims that the server has tried to make.
func (c *claiming) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.claims
}

func (c *claiming) DropClaims(vfs.Handle) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = vfs.Claims{}
}

// each runs a test with a file system that answers at once, one that has to wait, and one that claims.
func each(t *testing.T, o options, test func(t *testing.T, s *site)) {
	for name, of := range map[string]func(vfs.FileSystem) vfs.FileSystem{
		"answering": nil,
		"hesitant":  func(fs vfs.FileSystem) vfs.FileSystem { return vfstest.Hesitant(fs) },
		"claiming":  func(fs vfs.FileSystem) vfs.FileSystem { return &claiming{FileSystem: fs} },
	} {
		t.Run(name, func(t *testing.T) {
			o.of = of
			test(t, newSite(t, o))
		})
	}
}

func prefixes(all ...string) (p []netip.Prefix) {
	for _, one := range all {
		p = append(p, netip.MustParsePrefix(one))
	}
	return p
}
