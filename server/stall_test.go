package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/server"
	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/server/servertest"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
)

// A site is a server in this process with two exports in memory.
type site struct {
	t         testing.TB
	server    *server.Server
	one, two  *memfs.FS // exports /one and /two
	tcp, rdma netip.AddrPort
	stop      func()
}

func newSite(t testing.TB, limits config.Limits) *site {
	t.Helper()
	return newSiteWithin(t, limits, config.Memory{})
}

// newSiteWithin is newSite with limits for memory. It calls prepare before the server serves.
func newSiteWithin(t testing.TB, limits config.Limits, memory config.Memory, prepare ...func(*server.Server)) *site {
	t.Helper()
	s := &site{t: t, one: memfs.New(memfs.Options{RootMode: 0o777}), two: memfs.New(memfs.Options{RootMode: 0o777})}
	listen := []config.Listen{{Addr: netip.AddrPortFrom(ownLoopback(), 0)}}
	var err error
	s.server, err = server.NewOver(&config.Config{TCP: listen, RDMA: listen, Limits: limits, Memory: memory},
		&export.Export{Name: "/one", FS: s.one, Options: export.Options{Squash: export.NoSquash}},
		&export.Export{Name: "/two", FS: s.two, Options: export.Options{Squash: export.NoSquash}})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range prepare {
		f(s.server)
	}
	s.tcp, s.rdma = s.server.TCPAddrs()[0], s.server.RDMAAddrs()[0]
	s.stop = run(t, s.server)
	return s
}

// dial connects over a transport, to addr if that is valid, else to the site.
func (s *site) dial(ctx context.Context, transport string, addr netip.AddrPort) *servertest.Client {
	s.t.Helper()
	dial := servertest.DialTCP
	if transport == "rdma" {
		dial = servertest.DialRDMA
	}
	if !addr.IsValid() {
		addr = s.addr(transport)
	}
	c, err := dial(ctx, addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.Close)
	return c
}

func (s *site) addr(transport string) netip.AddrPort {
	if transport == "rdma" {
		return s.rdma
	}
	return s.tcp
}

// connections returns the number of connections over a transport.
func (s *site) connections(transport string) int64 {
	tcp, rdma := s.server.Connections()
	if transport == "rdma" {
		return rdma
	}
	return tcp
}

// await polls until met returns true. It is for conditions without an event.
func await(t testing.TB, ctx context.Context, what string, met func() bool) {
	t.Helper()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for !met() {
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatal("it did not come to pass that ", what)
		}
	}
}

// file makes a file of n bytes in an export.
func (s *site) file(ctx context.Context, c *servertest.Client, export string, n int) servertest.Handle {
	s.t.Helper()
	dir, err := c.Mount(ctx, export)
	if err != nil {
		s.t.Fatal(err)
	}
	h, err := c.Create(ctx, dir, "file", 0o666)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err = c.Write(ctx, h, 0, make([]byte, n), wire.Unstable); err != nil {
		s.t.Fatal(err)
	}
	return h
}

// works fails the test unless c can write and read n bytes of the file h.
func works(t testing.TB, ctx context.Context, c *servertest.Client, h servertest.Handle, n int) {
	t.Helper()
	if _, err := c.Write(ctx, h, 0, make([]byte, n), wire.FileSync); err != nil {
		t.Errorf("WRITE elsewhere: %v", err)
	}
	if got, err := c.Read(ctx, h, 0, make([]byte, n)); err != nil || got != n {
		t.Errorf("READ elsewhere: %d bytes, %v", got, err)
	}
}

// outcomes receives the results of calls to a stalled file system. Its capacity is the number of
// these calls.
type outcomes chan error

// done is the Done function of these calls.
func (o outcomes) done(x *rpc.Exchange) {
	if x.Err == nil && x.Results.Uint32() != 0 {
		x.Err = errors.New("status is not NFS3_OK")
	}
	o <- x.Err
}

// none fails the test if one of the calls has ended.
func (o outcomes) none(t *testing.T) {
	t.Helper()
	select {
	case err := <-o:
		t.Fatalf("a call into the file system that stalls ended: %v", err)
	default:
	}
}

// all waits until all calls have ended, and checks that they succeeded.
func (o outcomes) all(t *testing.T) {
	t.Helper()
	for range cap(o) {
		if err := <-o; err != nil {
			t.Fatal(err)
		}
	}
}

// If a file system stalls while 24 connections make 128 calls each to it, the daemon continues: the
// number of its goroutines is limited, and the other export is served. When the
// file system continues, every call is answered.
func TestFileSystemThatStalls(t *testing.T) {
	const conns, calls, size = 24, 128, 4096
	for _, transport := range []string{"tcp", "rdma"} {
		for _, p := range []wire.Procedure{wire.ProcGetattr, wire.ProcRead} {
			t.Run(fmt.Sprintf("%s/%v", transport, p), func(t *testing.T) {
				s := newSite(t, config.Limits{})
				ctx := testContext(t)
				other := s.dial(ctx, transport, netip.AddrPort{})
				one, two := s.file(ctx, other, "/one", size), s.file(ctx, other, "/two", size)
				release := s.one.Stall()
				defer release()
				answers := make(outcomes, conns*calls)
				for range conns {
					c := s.dial(ctx, transport, netip.AddrPort{})
					if _, err := c.GetAttr(ctx, two); err != nil { // after a served call the client has all its credits
						t.Fatal(err)
					}
					for range calls {
						args, sink := interface{ Encode(*xdr.Writer) }(&wire.Getattr3Args{Object: wire.FileHandle3{Data: one}}), []byte(nil)
						if p == wire.ProcRead {
							args, sink = &wire.Read3Args{FileHandle: wire.FileHandle3{Data: one}, Count: size}, make([]byte, size)
						}
						c.Start(p, args, sink, answers.done)
					}
				}
				await(t, ctx, "every call arrives", func() bool { return s.server.Calls().InProgress == conns*calls })
				if w := s.server.Calls().Workers; w > 1024 {
					t.Errorf("%d goroutines may block", w)
				}
				works(t, ctx, other, two, size)
				late := s.dial(ctx, transport, netip.AddrPort{})
				works(t, ctx, late, two, size)
				answers.none(t)
				release()
				answers.all(t)
				works(t, ctx, late, one, size)
				await(t, ctx, "memory comes back", func() bool { return s.server.Memory().InUse == 0 })
			})
		}
	}
}

// Calls to a stalled file system hold at most half of the payload memory, even if they ask for
// more than there is; the rest of them wait. The other export still gets memory. Its calls get
// memory even on connections that have stalled calls, up to the connection's limit; only a TCP
// connection with WRITEs stops at the first call that gets no memory.
func TestFileSystemThatStallsUnderLargeTransfers(t *testing.T) {
	const conns, calls, size = 8, 16, 1 << 20
	for _, transport := range []string{"tcp", "rdma"} {
		for _, p := range []wire.Procedure{wire.ProcRead, wire.ProcWrite} {
			t.Run(fmt.Sprintf("%s/%v", transport, p), func(t *testing.T) {
				s := newSiteWithin(t, config.Limits{}, config.Memory{Ceiling: 32 << 20, Connection: 24 << 20})
				ctx := testContext(t)
				other := s.dial(ctx, transport, netip.AddrPort{})
				one, two := s.file(ctx, other, "/one", size), s.file(ctx, other, "/two", size)
				release := s.one.Stall()
				defer release()
				answers := make(outcomes, conns*calls)
				var busy *servertest.Client
				for range conns {
					busy = s.dial(ctx, transport, netip.AddrPort{})
					if _, err := busy.GetAttr(ctx, two); err != nil { // after a served call the client has all its credits
						t.Fatal(err)
					}
					if p == wire.ProcWrite {
						startWrites(busy, one, calls, size, answers.done)
						continue
					}
					for range calls {
						busy.Start(p, &wire.Read3Args{FileHandle: wire.FileHandle3{Data: one}, Count: size}, make([]byte, size), answers.done)
					}
				}
				await(t, ctx, "calls wait for memory, and what got some runs", func() bool {
					waiting, running := s.server.Memory().Waiting, int(s.server.Calls().InProgress)
					if transport == "tcp" && p == wire.ProcWrite {
						// A TCP connection stops at the first call that gets no memory.
						return waiting >= conns-1 && running > 0
					}
					return waiting > 0 && waiting+running == conns*calls
				})
				if m := s.server.Memory(); m.InUse > m.Ceiling/2 {
					t.Errorf("calls that stall hold %d bytes of %d", m.InUse, m.Ceiling)
				}
				works(t, ctx, other, two, size)
				late := s.dial(ctx, transport, netip.AddrPort{})
				works(t, ctx, late, two, size)
				if transport == "rdma" || p == wire.ProcRead {
					works(t, ctx, busy, two, size)
				}
				answers.none(t)
				release()
				answers.all(t)
				works(t, ctx, late, one, size)
				await(t, ctx, "memory comes back", func() bool { return s.server.Memory().InUse == 0 })
			})
		}
	}
}

// Peers that stop in the middle of a message, or stop reading, lose their connection after a time
// limit. Other peers are not affected, and the memory of these connections is released.
func TestPeersThatDoNotGoOn(t *testing.T) {
	const size = 1 << 20
	for _, c := range []struct {
		name       string
		transports []string
		// misbehave makes calls and lets the proxy disturb the connection. It returns the number
		// of calls.
		misbehave func(p *servertest.Proxy, c *servertest.Client, h servertest.Handle, done func(*rpc.Exchange)) (calls int)
	}{
		{"stops in the middle of a record or message", []string{"tcp", "rdma"},
			func(p *servertest.Proxy, c *servertest.Client, h servertest.Handle, done func(*rpc.Exchange)) int {
				p.StopAfter(61)
				c.Start(wire.ProcGetattr, &wire.Getattr3Args{Object: wire.FileHandle3{Data: h}}, nil, done)
				return 1
			}},
		{"stops in the middle of a payload", []string{"tcp", "rdma"},
			func(p *servertest.Proxy, c *servertest.Client, h servertest.Handle, done func(*rpc.Exchange)) int {
				p.StopAfter(size / 2)
				return startWrites(c, h, 4, size, done)
			}},
		{"never answers an RDMA Read", []string{"rdma"},
			func(p *servertest.Proxy, c *servertest.Client, h servertest.Handle, done func(*rpc.Exchange)) int {
				p.StopAtAnswer()
				return startWrites(c, h, 16, size, done)
			}},
		{"stops reading", []string{"tcp", "rdma"},
			func(p *servertest.Proxy, c *servertest.Client, h servertest.Handle, done func(*rpc.Exchange)) int {
				p.Deafen()
				const calls = 64
				for range calls {
					c.Start(wire.ProcRead, &wire.Read3Args{FileHandle: wire.FileHandle3{Data: h}, Count: size}, make([]byte, size), done)
				}
				return calls
			}},
	} {
		for _, transport := range c.transports {
			t.Run(c.name+"/"+transport, func(t *testing.T) {
				s := newSite(t, config.Limits{StallTimeout: config.Duration(300 * time.Millisecond)})
				ctx := testContext(t)
				good := s.dial(ctx, transport, netip.AddrPort{})
				one, two := s.file(ctx, good, "/one", size), s.file(ctx, good, "/two", size)
				proxy := servertest.NewProxy(t, s.addr(transport))
				bad := s.dial(ctx, transport, proxy.Addr())
				if _, err := bad.GetAttr(ctx, one); err != nil {
					t.Fatal(err)
				}
				if n := s.connections(transport); n != 2 {
					t.Fatalf("%d connections, want 2", n)
				}
				ended := make(chan error, 128)
				calls := c.misbehave(proxy, bad, one, func(x *rpc.Exchange) { ended <- x.Err })
				works(t, ctx, good, two, size)
				works(t, ctx, good, one, size)
				await(t, ctx, "the peer loses its connection", func() bool { return s.connections(transport) == 1 })
				await(t, ctx, "its memory comes back", func() bool { return s.server.Memory().InUse == 0 })
				works(t, ctx, good, one, size)
				proxy.Close()
				for range calls {
					select {
					case <-ended:
					case <-ctx.Done():
						t.Fatal("a call does not end")
					}
				}
			})
		}
	}
}

func startWrites(c *servertest.Client, h servertest.Handle, calls, size int, done func(*rpc.Exchange)) int {
	for range calls {
		c.Start(wire.ProcWrite, &wire.Write3Args{
			FileHandle: wire.FileHandle3{Data: h}, Count: uint32(size), Data: xdr.Eligible{Data: make([]byte, size)},
		}, nil, done)
	}
	return calls
}

// A server that is told to end answers the calls in progress first.
func TestDrainAnswersCallsInProgress(t *testing.T) {
	for _, transport := range []string{"tcp", "rdma"} {
		t.Run(transport, func(t *testing.T) {
			s := newSite(t, config.Limits{})
			ctx := testContext(t)
			c := s.dial(ctx, transport, netip.AddrPort{})
			h := s.file(ctx, c, "/one", 4096)
			release := s.one.Stall(memfs.Read)
			answer := make(chan error, 1)
			go func() {
				_, err := c.Read(ctx, h, 0, make([]byte, 4096))
				answer <- err
			}()
			s.one.AwaitStalled(1)
			stopped := make(chan struct{})
			go func() {
				defer close(stopped)
				s.stop()
			}()
			// No new client can connect; a connected one still gets its answer.
			await(t, ctx, "listeners are closed", func() bool {
				k, err := servertest.DialTCP(ctx, s.tcp)
				if err == nil {
					k.Close()
				}
				return err != nil
			})
			select {
			case <-stopped:
				t.Fatal("it ended with a call in progress")
			default:
			}
			release()
			if err := <-answer; err != nil {
				t.Errorf("the call in progress: %v", err)
			}
			<-stopped
		})
	}
}
