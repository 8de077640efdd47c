package gss_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
	"github.com/nfsrdmad/nfsrdmad/transport/tcp"
)

// A served is a site that listens on transports.
type served struct {
	*site
	pool *mem.Pool
	tcp  string
	card rdmacm.Provider
	rdma netip.AddrPort
}

// serve makes s listen on TCP and, if inline is not 0, on RDMA with that inline threshold in bytes.
func (s *site) serve(inline int) *served {
	s.Helper()
	pool, err := mem.NewPool(mem.Config{Ceiling: 64 << 20})
	if err != nil {
		s.Fatal(err)
	}
	v := &served{site: s, pool: pool}
	s.Cleanup(func() {
		if n := pool.Stats().InUse; n != 0 {
			s.Errorf("%d bytes of payload memory are still in use", n)
		}
		pool.Close()
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.Fatal(err)
	}
	v.tcp = l.Addr().String()
	overTCP := tcp.NewServer(tcp.Config{RPC: s.rpc, Pool: pool})
	v.run(func() error { return overTCP.Serve(l) }, func() { overTCP.Close() })
	if inline > 0 {
		v.serveRDMA(inline)
	}
	return v
}

func (v *served) serveRDMA(inline int) {
	v.Helper()
	var err error
	if v.card, err = iwarp.New(iwarp.Config{}); err != nil {
		v.Fatal(err)
	}
	l, err := v.card.Listen(netip.MustParseAddrPort("127.0.0.1:0"))
	if err != nil {
		v.Fatal(err)
	}
	v.rdma = l.Addr()
	overRDMA, err := rdma.NewServer(rdma.Config{
		RPC: v.rpc, Pool: v.pool, InlineSend: inline, InlineReceive: inline, StrangerCredits: rdma.DefaultCredits,
	})
	if err != nil {
		v.Fatal(err)
	}
	v.run(func() error { return overRDMA.Serve(l) }, func() { overRDMA.Close() })
}

// run calls serve on a goroutine, and end at the end of the test.
func (v *served) run(serve func() error, end func()) {
	done := make(chan error, 1)
	go func() { done <- serve() }()
	v.Cleanup(func() {
		await.Return(v, "Close of a server returns", end)
		await.Receive(v, "Serve returns", done)
	})
}

func (v *served) overTCP(t *testing.T) rpc.Caller {
	c, err := tcp.Dial(context.Background(), v.tcp, tcp.DialConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func (v *served) overRDMA(t *testing.T, inline int) rpc.Caller {
	c, err := rdma.Dial(context.Background(), v.card, v.rdma, rdma.DialConfig{InlineSend: inline, InlineReceive: inline})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// under returns a Client that makes its calls on k, for one test.
func (v *served) under(t *testing.T, k rpc.Caller, service rpc.GSSService) rpc.Caller {
	c, err := gss.NewClient(context.Background(), k, v.config(service))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// rpctest.Calls passes over TCP under each service.
func TestOverTCP(t *testing.T) {
	for name, service := range services {
		t.Run(name, func(t *testing.T) {
			v := newSite(t, gss.Config{}).serve(0)
			rpctest.Calls(t, v.program, func(t *testing.T) rpc.Caller { return v.under(t, v.overTCP(t), service) })
			v.nothingRefused(t)
		})
	}
}

// rpctest.Calls passes over RDMA, where protected data is never placed directly (RFC 8166 §8.2.2).
func TestOverRDMA(t *testing.T) {
	for _, c := range []struct {
		inline  int
		service rpc.GSSService
	}{{4096, rpc.GSSIntegrity}, {1024, rpc.GSSPrivacy}} {
		t.Run(fmt.Sprintf("service %d, T=%d", c.service, c.inline), func(t *testing.T) {
			v := newSite(t, gss.Config{}).serve(c.inline)
			rpctest.Calls(t, v.program, func(t *testing.T) rpc.Caller { return v.under(t, v.overRDMA(t, c.inline), c.service) })
			v.nothingRefused(t)
		})
	}
}

func (v *served) nothingRefused(t *testing.T) {
	t.Helper()
	st := v.gss.Stats()
	if st.Refused != ([len(st.Refused)]uint64{}) || st.Contexts != 0 || st.Destroyed != st.Made || st.Calls < 100 {
		t.Errorf("%+v", st)
	}
}

// A client can make a context over TCP and use it over RDMA.
func TestContextOfBothTransports(t *testing.T) {
	v := newSite(t, gss.Config{}).serve(4096)
	s := &switched{to: v.overTCP(t)}
	k := v.client(s, rpc.GSSPrivacy)
	exercise(t, k, 1, 3001)
	s.to = v.overRDMA(t, 4096)
	exercise(t, k, 1, 3001)
	if st := v.gss.Stats(); st.Made != 1 {
		t.Errorf("%+v", st)
	}
	s.to = v.overTCP(t)
}

// switched is a Caller that makes its calls on to, which the test may change.
type switched struct{ to rpc.Caller }

func (s *switched) Start(x *rpc.Exchange)             { s.to.Start(x) }
func (s *switched) Cancel(x *rpc.Exchange, err error) { s.to.Cancel(x, err) }

// Close cancels calls that the server does not answer.
func TestCloseGivesUpOnCalls(t *testing.T) {
	v := newSite(t, gss.Config{}).serve(0)
	const lane = 3
	defer v.program.Release(lane)
	k, err := gss.NewClient(context.Background(), v.overTCP(t), v.config(rpc.GSSIntegrity))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	x := rpctest.NewExchange(rpctest.STALL, put(words(lane)))
	x.Done = func(x *rpc.Exchange) { done <- x.Err }
	k.Start(x)
	await.Receive(t, "the call stalls", v.program.Arrived(lane))
	await.Return(t, "Close returns", k.Close)
	if err := await.Receive(t, "the call ends", done); !errors.Is(err, gss.ErrClosed) {
		t.Error(err)
	}
	if st := v.gss.Stats(); st.Contexts != 0 {
		t.Errorf("%+v", st)
	}
}
