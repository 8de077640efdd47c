package gss_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss/gsstest"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var peer = netip.MustParseAddrPort("192.0.2.7:700")

// A site is a server with the test program and the test mechanism.
type site struct {
	testing.TB
	rpc     *rpc.Server
	program *rpctest.Program
	gss     *gss.Server
	mech    *gsstest.Mechanism
	wires   uint32
}

func newSite(t testing.TB, cfg gss.Config) *site {
	s := &site{TB: t, rpc: rpc.NewServer(rpc.Config{}), program: rpctest.NewProgram(), mech: gsstest.New()}
	if cfg.Mechanisms == nil {
		cfg.Mechanisms = []gss.Mechanism{s.mech}
	}
	if cfg.Identify == nil {
		cfg.Identify = func(string) (uid, gid uint32, groups []uint32, ok bool, err error) {
			return 1000, 100, []uint32{4, 24}, true, nil
		}
	}
	s.gss = gss.New(cfg)
	s.rpc.Register(s.program)
	s.rpc.Protect(rpc.AuthGSS, s.gss)
	t.Cleanup(func() {
		s.program.Wait()
		s.rpc.Close()
		s.gss.Close()
	})
	return s
}

// wire is an rpc.Caller without a transport. It serves each call on a goroutine of its own.
type wire struct {
	s    *rpc.Server
	conn *rpc.Conn
	xid  atomic.Uint32
	// change, if not nil, changes each message to the server. back, if not nil, changes each
	// message from the server.
	change, back func(m []byte) []byte
	// write, if not nil, is called with each message of the method call instead of serving it.
	write func(m []byte)
	wg    sync.WaitGroup
}

func (s *site) wire() *wire { return s.wireFrom(peer) }

func (s *site) wireFrom(peer netip.AddrPort) *wire {
	w := &wire{s: s.rpc, conn: s.rpc.NewConn(peer, peer, "tcp", true)}
	// Each wire has XIDs of its own.
	s.wires++
	w.xid.Store(s.wires << 20)
	s.Cleanup(w.wg.Wait)
	return w
}

var errNoAnswer = errors.New("the call was dropped")

// message returns the RPC message of the call x.
func message(x *rpc.Exchange) []byte {
	w := xdr.NewWriter(make([]byte, 0, x.HeaderSize()+x.MaxArgs))
	x.Put(w)
	if w.Overflow() {
		panic("arguments exceed MaxArgs")
	}
	var m []byte
	at := 0
	for _, p := range w.Payloads() {
		m = append(m, w.Bytes()[at:p.Position]...)
		m = append(m, p.Data...)
		m = append(m, make([]byte, xdr.Pad(len(p.Data)))...)
		at = p.Position
	}
	m = append(m, w.Bytes()[at:]...)
	w.Release()
	return m
}

// Start implements rpc.Caller.
func (w *wire) Start(x *rpc.Exchange) {
	x.XID = w.xid.Add(1)
	m := message(x)
	if w.change != nil {
		m = w.change(m)
	}
	w.wg.Go(func() {
		c := w.serve(m)
		x.Results.Reset(c.Reply, 0, nil)
		if c.End == rpctest.Sent {
			x.Read()
		} else {
			x.Err = errNoAnswer
		}
		x.Done(x)
	})
}

// serve serves one message, and returns its call.
func (w *wire) serve(m []byte) *rpctest.Call {
	c := rpctest.NewCall(w.conn, append([]byte(nil), m...))
	if _, ok := w.s.Admit(&c.Call); ok {
		w.s.Serve(&c.Call)
	}
	<-c.Done
	if w.back != nil {
		c.Reply = w.back(c.Reply)
	}
	return c
}

// Cancel implements rpc.Caller. It does nothing, because all calls end by themselves.
func (w *wire) Cancel(*rpc.Exchange, error) {}

func (s *site) config(service rpc.GSSService) gss.ClientConfig {
	return gss.ClientConfig{
		Mechanism: s.mech, Target: "nfs@server", Service: service,
		Program: rpctest.Number, Version: rpctest.LowVersion,
	}
}

// client returns a Client that makes its calls on k.
func (s *site) client(k rpc.Caller, service rpc.GSSService) *gss.Client {
	s.Helper()
	return s.clientOf(k, s.config(service))
}

func (s *site) clientOf(k rpc.Caller, cfg gss.ClientConfig) *gss.Client {
	s.Helper()
	c, err := gss.NewClient(context.Background(), k, cfg)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(c.Close)
	return c
}

var services = map[string]rpc.GSSService{"none": rpc.GSSNone, "integrity": rpc.GSSIntegrity, "privacy": rpc.GSSPrivacy}

// refused returns how often the server has refused for the reason r.
func (s *site) refused(r gss.Reason) uint64 { return s.gss.Stats().Refused[r] }

// bump makes a BUMP, and returns the number of BUMPs executed so far.
func bump(k rpc.Caller) (n uint64, err error) {
	x := rpctest.NewExchange(rpctest.BUMP, func(w *xdr.Writer) { w.Opaque([]byte("a tag")) })
	err = rpc.Do(context.Background(), k, x, func(d *xdr.Decoder) error {
		n = d.Uint64()
		return d.Finish()
	})
	return n, err
}

// denied reports whether err is a reply MSG_DENIED with this reason.
func denied(err error, why rpc.AuthStat) bool {
	var re *rpc.ReplyError
	return errors.As(err, &re) && re.Denied && re.Auth == why
}

func be32(b []byte) uint32 { return binary.BigEndian.Uint32(b) }
