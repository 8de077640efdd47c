// Package nfs4test is for tests of NFSv4. It has a server of file systems in memory, and clients
// that pass compounds to the server without a network. The same clients can instead connect to a
// server that runs elsewhere (Far).
package nfs4test

import (
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/identity"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
)

// Config describes a Site.
type Config struct {
	// FS is the file system of /export. If it is nil, it is a file system in memory whose root
	// every user may write to.
	FS vfs.FileSystem
	// Root returns the file system to which PUTROOTFH leads. If it is nil, PUTROOTFH leads to FS.
	Root func(t *export.Table) vfs.FileSystem
	// Minors returns the minor versions that the server has.
	Minors func(m *state.Manager) [3]nfs4.Minor
	// Identity, SendNames and State are passed to the server.
	Identity  *identity.Map
	SendNames bool
	State     state.Config
}

// A Site is an NFSv4 server with its exports.
type Site struct {
	T       testing.TB
	FS      vfs.FileSystem
	Export  *export.Export
	Exports *export.Table
	State   *state.Manager
	Program *nfs4.Program
	RPC     *rpc.Server
	Pool    *mem.Pool
	Realm   *Realm // only of a Far Site
	// version2 is true if the Peers of a Far Site connect over RDMA, with version 2 of RPC-over-RDMA.
	version2 bool

	share  *mem.Share
	xid    atomic.Uint32
	port   uint16
	server netip.AddrPort // only of a Far Site
}

// New creates a Site. When the test ends, New closes the Site, and fails the test if payload memory
// was not released.
func New(t testing.TB, cfg Config) *Site {
	t.Helper()
	s := &Site{T: t, FS: cfg.FS, port: 600}
	if s.FS == nil {
		s.FS = memfs.New(memfs.Options{RootMode: 0o777})
	}
	s.Exports = export.NewTable([export.KeySize]byte{7})
	root := s.FS
	if cfg.Root != nil {
		root = cfg.Root(s.Exports)
	}
	s.Exports.SetRoot(&export.Export{Name: "/", FS: root, Options: export.Options{Squash: export.NoSquash, AnonUID: export.Nobody, AnonGID: export.Nobody}})
	s.Export = &export.Export{Name: "/export", FS: s.FS, Options: export.Options{Squash: export.NoSquash, AnonUID: export.Nobody, AnonGID: export.Nobody}}
	if err := s.Exports.Replace([]*export.Export{s.Export}); err != nil {
		t.Fatal(err)
	}
	var err error
	if s.State, err = state.New(cfg.State); err != nil {
		t.Fatal(err)
	}
	if s.Pool, err = mem.NewPool(mem.Config{Ceiling: 32 << 20}); err != nil {
		t.Fatal(err)
	}
	s.share = s.Pool.NewShare()
	s.RPC = rpc.NewServer(rpc.Config{Pool: s.Pool, Panicked: func(p *rpc.Panic) {
		t.Errorf("%s panicked: %v\n%s", p.Procedure, p.Value, p.Stack)
	}})
	s.Program = nfs4.New(nfs4.Config{Exports: s.Exports, State: s.State, Minors: cfg.Minors(s.State), Identity: cfg.Identity, SendNames: cfg.SendNames})
	s.Program.MeasureDurations()
	s.RPC.Register(s.Program)
	s.RPC.Protect(rpc.AuthGSS, proven{})
	t.Cleanup(func() {
		s.RPC.Close()
		s.State.Close()
		if n := s.Pool.Stats().InUse; n != 0 {
			t.Errorf("%d bytes of payload memory were not given back", n)
		}
		s.share.Close()
		s.Pool.Close()
	})
	return s
}

// Server is the server's principal, which a caller with a Principal names as the target of its GSS
// context.
const Server = "nfs/server@TEST"

// Unsure is the name of a principal that the Site cannot identify for the time being.
const Unsure = "unsure@TEST"

// proven is a fake of RPCSEC_GSS: it believes the principal that the credential names, without a
// proof. The caller's user and group are 65534.
type proven struct{}

// Verify implements rpc.Protection.
func (proven) Verify(a *rpc.Arrived) (rpc.Guard, rpc.Outcome) {
	c := &a.Cred
	c.Principal, c.Target, c.GSS = string(a.Header.Cred.Body), Server, rpc.GSSIntegrity
	c.Anonymous, c.UID, c.GID = true, rpc.NobodyID, rpc.NobodyID
	c.Unsure = c.Principal == Unsure
	return nil, rpc.Done
}

// A Peer is one connection and the caller on it.
type Peer struct {
	*Site
	Conn *rpc.Conn
	// Minor is the minor version of its compounds. UID is the user that its AUTH_SYS credential
	// names. If Principal is set, the caller is this principal with RPCSEC_GSS and integrity instead.
	// If the Site was made by Far, the caller proves this with a ticket of the Site's Realm. Other
	// Sites believe the credential without a proof (see proven).
	Minor     uint32
	UID, GID  uint32
	Principal string
	// With Nobody, the credential is AUTH_NONE, whatever UID says.
	Nobody bool
	// Room is the space for the reply to each call of this Peer. Places has the sizes of the places
	// outside the reply, such as Write chunks, for its eligible results: see rpctest.Call.
	Room   rpc.Room
	Places []int
	far    *wireTo // only of a Far Site, whose Peers have no Conn
}

// Peer makes a connection. Its caller is user 0.
func (s *Site) Peer(minor uint32) *Peer { return s.peer(minor, 3) }

// Other is like Peer, but the connection comes from another machine.
func (s *Site) Other(minor uint32) *Peer { return s.peer(minor, 4) }

// peer makes a connection from the machine with this number.
func (s *Site) peer(minor uint32, machine byte) *Peer {
	s.T.Helper()
	if s.server.IsValid() {
		return s.farPeer(minor, machine)
	}
	s.port++
	c := s.RPC.NewConn(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, 2, machine}), s.port), netip.AddrPort{}, "tcp", true)
	return &Peer{Site: s, Conn: c, Minor: minor, Room: rpctest.TCPRoom}
}

// An Op is one operation of a compound. Args is nil if the operation has no arguments.
type Op struct {
	Number wire.OpNum
	Args   interface{ Encode(w *xdr.Writer) }
}

// A Result is the result of a compound.
type Result struct {
	Status wire.NFSStat4
	Tag    string
	// Ops has the results of the operations, in order. Each body begins at the status.
	Ops []OpResult
}

// An OpResult is the result of one operation.
type OpResult struct {
	Number wire.OpNum
	Status wire.NFSStat4
	// Size is the length of the result in bytes, with its number and status, and without data that was
	// placed outside the reply.
	Size int
	body xdr.Decoder
}

// Into decodes the whole result, with its status, into res. It fails the test if the result
// cannot be decoded.
func (r *OpResult) Into(t testing.TB, res interface{ Decode(d *xdr.Decoder) }) {
	t.Helper()
	d := r.body
	res.Decode(&d)
	if d.Err() != nil {
		t.Fatalf("%v: %v", r.Number, d.Err())
	}
}

// Message returns a call with these operations and a new XID, as bytes.
func (p *Peer) Message(tag string, ops ...Op) []byte {
	return p.Raw(func(w *xdr.Writer) {
		w.Opaque([]byte(tag))
		w.Uint32(p.Minor)
		w.Uint32(uint32(len(ops)))
		for _, op := range ops {
			w.Uint32(uint32(op.Number))
			if op.Args != nil {
				op.Args.Encode(w)
			}
		}
	})
}

// Raw returns a COMPOUND call as bytes, with a new XID and the arguments that the function args
// writes. Any goroutine may call it.
func (p *Peer) Raw(args func(w *xdr.Writer)) []byte {
	h := rpc.CallHeader{XID: p.xid.Add(1), Program: wire.Program, Version: wire.Version, Procedure: wire.ProcCompound}
	var err error
	if p.Nobody {
		h.Cred = rpc.AuthBytes{Flavor: rpc.AuthNone}
	} else if p.Principal != "" {
		h.Cred = rpc.AuthBytes{Flavor: rpc.AuthGSS, Body: []byte(p.Principal)}
	} else if h.Cred, err = rpc.AuthSysCred(0, "client", p.UID, p.GID, nil); err != nil {
		p.T.Fatal(err)
	}
	return rpctest.CallMessage(h, args)
}

// Begin passes a message to the server, as a transport does. The call's channel Done gets a value
// when the call is answered.
func (p *Peer) Begin(message []byte) *rpctest.Call {
	if p.far != nil {
		return p.far.begin(p, message)
	}
	c := rpctest.NewCall(p.Conn, message)
	c.Space, c.Places = p.Room, p.Places
	p.carry(c)
	return c
}

// Serve passes a call, which Call.Again has prepared, to the server again. The server must answer
// it before Serve returns.
func (p *Peer) Serve(c *rpctest.Call) {
	p.carry(c)
	select {
	case <-c.Done:
	default:
		p.T.Fatal("the call was not served in place")
	}
	if c.Memory != nil {
		c.Memory.Release()
		c.Memory = nil
	}
}

func (p *Peer) carry(c *rpctest.Call) {
	plan, ok := p.RPC.Admit(&c.Call)
	if ok {
		if plan.Results > 0 {
			if c.Memory, ok = p.share.TryGetIn(plan.Group, plan.Results); !ok {
				p.T.Fatalf("no memory for %d bytes", plan.Results)
			}
			c.ResultsAt = 0
		}
		p.RPC.Serve(&c.Call)
	}
}

// End waits until a call is answered, releases its payload memory, and returns it.
func (p *Peer) End(c *rpctest.Call) *rpctest.Call {
	await.Receive(p.T, "the call is answered", c.Done)
	if c.Memory != nil {
		c.Memory.Release()
		c.Memory = nil
	}
	return c
}

// Compound makes a compound and returns its results. It fails the test if a result is longer than a Linux
// client has room for (LinuxRoom).
func (p *Peer) Compound(ops ...Op) *Result {
	p.T.Helper()
	r := p.Parse(p.End(p.Begin(p.Message("", ops...))))
	p.fits(ops, r.Ops)
	return r
}

// Parse returns the results of a compound. It fails the test if the reply is not well formed, or
// if an operation ended with a status that Valid does not allow.
func (p *Peer) Parse(c *rpctest.Call) *Result {
	p.T.Helper()
	d, err := c.Results()
	if err != nil {
		p.T.Fatal(err)
	}
	r := &Result{Status: wire.NFSStat4(d.Int32()), Tag: string(d.Opaque(1 << 20))}
	for range d.Uint32() {
		begin := d.Len()
		o := OpResult{Number: wire.OpNum(d.Int32())}
		o.body = *d
		o.Status = wire.NFSStat4(d.Int32())
		skipResult(d, o.Number, o.Status)
		if d.Err() != nil {
			p.T.Fatalf("the result of %v, %v, does not decode: %v", o.Number, o.Status, d.Err())
		}
		if !Valid(p.Minor, o.Number, o.Status) {
			p.T.Errorf("%v of minor version %d answered %v, which is none of its errors", o.Number, p.Minor, o.Status)
		}
		o.Size = begin - d.Len()
		r.Ops = append(r.Ops, o)
	}
	if err := d.Finish(); err != nil {
		p.T.Fatalf("results do not decode: %v", err)
	}
	return r
}
