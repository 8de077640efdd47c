package client_test

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
	"github.com/nfsrdmad/nfsrdmad/transport/tcp"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/mount3"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is for what must happen; it is never waited for in a good run.
const patience = 60 * time.Second

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// A testServer serves "/x", a file system in memory, over TCP and over RDMA: by
// the software RNIC, and in memory.
type testServer struct {
	tcp, iwarp, memory netip.AddrPort
	provider           rdmacm.Provider // of memory
	mu                 sync.Mutex
	devices            []*rdmatest.Conn // of memory, both ends of each connection
	rpc                *rpc.Server
	rdma               *rdma.Server
}

var loopback = netip.MustParseAddrPort("127.0.0.1:0")

func startServer(t testing.TB) *testServer {
	t.Helper()
	table := export.NewTable([export.KeySize]byte{1})
	if err := table.Replace([]*export.Export{{
		Name: "/x", FS: memfs.New(memfs.Options{RootMode: 0o777}), Squash: export.NoSquash,
	}}); err != nil {
		t.Fatal(err)
	}
	pool, err := mem.NewPool(mem.Config{Ceiling: 256 << 20})
	if err != nil {
		t.Fatal(err)
	}
	s := &testServer{rpc: rpc.NewServer(rpc.Config{})}
	s.provider = rdmatest.NewConfig(rdmatest.Config{Quiet: true, Conn: func(c *rdmatest.Conn) {
		s.mu.Lock()
		s.devices = append(s.devices, c)
		s.mu.Unlock()
	}})
	s.rpc.Register(nfs3.New(table))
	s.rpc.Register(mount3.New(table))

	l, err := net.Listen("tcp", loopback.String())
	if err != nil {
		t.Fatal(err)
	}
	s.tcp = l.Addr().(*net.TCPAddr).AddrPort()
	overTCP := tcp.NewServer(tcp.Config{RPC: s.rpc, Pool: pool})

	device, err := iwarp.New(iwarp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if s.rdma, err = rdma.NewServer(rdma.Config{RPC: s.rpc, Pool: pool, RemoteInvalidation: true}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 3)
	go func() { ended <- overTCP.Serve(l) }()
	for _, d := range []struct {
		p    rdmacm.Provider
		addr *netip.AddrPort
	}{{device, &s.iwarp}, {s.provider, &s.memory}} {
		l, err := d.p.Listen(loopback)
		if err != nil {
			t.Fatal(err)
		}
		*d.addr = l.Addr()
		go func() { ended <- s.rdma.Serve(l) }()
	}
	t.Cleanup(func() {
		overTCP.Close()
		s.rdma.Close()
		for range cap(ended) {
			<-ended
		}
		s.rpc.Close()
		pool.Close()
	})
	return s
}

// lose cuts all connections that are in memory.
func (s *testServer) lose() {
	s.mu.Lock()
	devices := s.devices
	s.devices = nil
	s.mu.Unlock()
	for _, d := range devices {
		d.Faults().Lose()
	}
}

// targets are all ways to the server, by name.
func (s *testServer) targets() map[string]client.Target {
	at := func(t client.Transport, a netip.AddrPort, p rdmacm.Provider) client.Target {
		return client.Target{Transport: t, Host: a.Addr().String(), Port: int(a.Port()), Provider: p, Cred: client.Self()}
	}
	return map[string]client.Target{
		"tcp":    at(client.TCP, s.tcp, nil),
		"iwarp":  at(client.RDMA, s.iwarp, nil),
		"memory": at(client.RDMA, s.memory, s.provider),
	}
}

func dial(t testing.TB, target client.Target) *client.Conn {
	t.Helper()
	c, err := client.Dial(within(t), target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return b
}

// over waits for what a test began: the end of a call, of a server, of a goroutine.
func over[T any](t testing.TB, ch <-chan T) T {
	t.Helper()
	return await.Receive(t, "what the test began ends", ch)
}
