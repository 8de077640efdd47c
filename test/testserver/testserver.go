// Package testserver serves NFSv3 and MOUNT, and on request NFSv4, in the process of a test of a
// client. It exports "/x", a file system in memory, over TCP and over RDMA.
package testserver

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
	"github.com/nfsrdmad/nfsrdmad/transport/tcp"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/mount3"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs40"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs41"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/pseudo"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
)

// Patience is the longest time that a test waits for an event. The event happens much earlier
// unless the test fails.
const Patience = 60 * time.Second

// Within returns a context that ends after Patience.
func Within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	t.Cleanup(cancel)
	return ctx
}

// A Server serves "/x" over TCP, and over RDMA by the software RNIC and by a device in memory.
type Server struct {
	// TCP, IWARP and Memory are the addresses at which the Server listens over TCP, over the
	// software RNIC and over the device in memory.
	TCP, IWARP, Memory netip.AddrPort
	RPC                *rpc.Server
	RDMA               *rdma.Server
	Pool               *mem.Pool

	table    *export.Table
	provider rdmacm.Provider // the provider of Memory
	mu       sync.Mutex
	devices  []*rdmatest.Conn // both ends of each connection of Memory
	atEnd    []func()
}

// Loopback is a loopback address with any free port.
var Loopback = netip.MustParseAddrPort("127.0.0.1:0")

// Start runs a Server until the test ends.
func Start(t testing.TB) *Server {
	t.Helper()
	return StartOver(t, memfs.New(memfs.Options{RootMode: 0o777}))
}

// StartOver is Start, except that the Server exports the given file system.
func StartOver(t testing.TB, fs vfs.FileSystem) *Server {
	t.Helper()
	table := export.NewTable([export.KeySize]byte{1})
	if err := table.Replace([]*export.Export{{
		Name: "/x", FS: fs, Options: export.Options{Squash: export.NoSquash},
	}}); err != nil {
		t.Fatal(err)
	}
	pool, err := mem.NewPool(mem.Config{Ceiling: 256 << 20})
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{RPC: rpc.NewServer(rpc.Config{}), Pool: pool, table: table}
	s.provider = rdmatest.NewConfig(rdmatest.Config{Quiet: true, Conn: func(c *rdmatest.Conn) {
		s.mu.Lock()
		s.devices = append(s.devices, c)
		s.mu.Unlock()
	}})
	s.RPC.Register(nfs3.New(table))
	s.RPC.Register(mount3.New(table))

	l, err := net.Listen("tcp", Loopback.String())
	if err != nil {
		t.Fatal(err)
	}
	s.TCP = l.Addr().(*net.TCPAddr).AddrPort()
	overTCP := tcp.NewServer(tcp.Config{RPC: s.RPC, Pool: pool})

	device, err := iwarp.New(iwarp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if s.RDMA, err = rdma.NewServer(rdma.Config{RPC: s.RPC, Pool: pool, RemoteInvalidation: true, Version2: true}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 3)
	go func() { ended <- overTCP.Serve(l) }()
	for _, d := range []struct {
		p    rdmacm.Provider
		addr *netip.AddrPort
	}{{device, &s.IWARP}, {s.provider, &s.Memory}} {
		l, err := d.p.Listen(Loopback)
		if err != nil {
			t.Fatal(err)
		}
		*d.addr = l.Addr()
		go func() { ended <- s.RDMA.Serve(l) }()
	}
	t.Cleanup(func() {
		overTCP.Close()
		s.RDMA.Close()
		for range cap(ended) {
			<-ended
		}
		s.RPC.Close()
		for _, f := range s.atEnd {
			f()
		}
		pool.Close()
	})
	return s
}

// ServeNFS4 also serves minor versions of NFSv4 until the test ends: those in minors, or 1 and 2 if
// minors is empty. The parameter lease is the lease time: if the server gets no call from a client
// for that long, the client loses its state.
func (s *Server) ServeNFS4(t testing.TB, lease time.Duration, minors ...int) {
	t.Helper()
	pseudo.Attach(s.table)
	clients, err := state.New(state.Config{Lease: lease})
	if err != nil {
		t.Fatal(err)
	}
	s.atEnd = append(s.atEnd, clients.Close)
	later := nfs41.New(nfs41.Config{State: clients, Owner: []byte("testserver"), Scope: []byte("test")})
	all := [3]nfs4.Minor{nfs40.New(nfs40.Config{State: clients, Dial: tcp.DialConfig{}.Dialer(), Machine: "testserver"}), later, later}
	if len(minors) == 0 {
		minors = []int{1, 2}
	}
	cfg := nfs4.Config{Exports: s.table, State: clients}
	for _, m := range minors {
		cfg.Minors[m] = all[m]
	}
	s.RPC.Register(nfs4.New(cfg))
}

// Lose breaks all connections of the device in memory.
func (s *Server) Lose() {
	s.mu.Lock()
	devices := s.devices
	s.devices = nil
	s.mu.Unlock()
	for _, d := range devices {
		d.Faults().Lose()
	}
}

// Targets returns the targets for client.Dial, by name: "tcp", "iwarp", "memory", and "memory2", which is
// "memory" with version 2 of RPC-over-RDMA.
func (s *Server) Targets() map[string]client.Target {
	at := func(t client.Transport, a netip.AddrPort, p rdmacm.Provider) client.Target {
		return client.Target{Transport: t, Host: a.Addr().String(), Port: int(a.Port()), Provider: p, Cred: client.Self()}
	}
	version2 := at(client.RDMA, s.Memory, s.provider)
	version2.RDMAVersion = client.RDMAVersion2
	return map[string]client.Target{
		"tcp":     at(client.TCP, s.TCP, nil),
		"iwarp":   at(client.RDMA, s.IWARP, nil),
		"memory":  at(client.RDMA, s.Memory, s.provider),
		"memory2": version2,
	}
}

// Dial connects to a target until the test ends.
func Dial(t testing.TB, target client.Target) *client.Conn {
	t.Helper()
	c, err := client.Dial(Within(t), target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// Pattern returns n bytes in which bytes that are close to each other differ.
func Pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return b
}
