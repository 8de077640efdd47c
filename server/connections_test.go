package server_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/rawpeer"
	iwarpwire "github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
	"github.com/nfsrdmad/nfsrdmad/server"
	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/server/servertest"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// idle opens n TCP connections from an address of the loopback network, and sends nothing
// on them.
func idle(t testing.TB, to netip.AddrPort, from netip.Addr, n int) (all []net.Conn) {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: from.AsSlice()}, Timeout: hang}
	for range n {
		c, err := d.Dial("tcp", to.String())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	t.Cleanup(func() {
		for _, c := range all {
			c.Close()
		}
	})
	return all
}

// Idle connections over one transport do not keep clients of either transport from connecting.
func TestOneCensusForBothTransports(t *testing.T) {
	const seats = 40
	s := newSite(t, config.Limits{Connections: seats, PerClient: seats})
	ctx := testContext(t)
	for _, filled := range []string{"tcp", "rdma"} {
		all := idle(t, s.addr(filled), ownLoopback(), 2*seats)
		for _, transport := range []string{"tcp", "rdma"} {
			c := s.dial(ctx, transport, netip.AddrPort{})
			h, err := c.Mount(ctx, "/one")
			if err != nil {
				t.Fatalf("%s, beside idle connections over %s: %v", transport, filled, err)
			}
			if _, err := c.GetAttr(ctx, h); err != nil {
				t.Error(err)
			}
			if st := s.server.Seats(); st.Total() > seats || st.Seats[3] == 0 {
				t.Errorf("seats %v of %d", st.Seats, seats)
			}
			c.Close()
		}
		for _, c := range all {
			c.Close()
		}
	}
}

// A connection that is refused, or ended to make room for another, causes a log line with the
// reason. One client causes few lines.
func TestConnectionsWithoutAPlaceMakeALine(t *testing.T) {
	s := newSiteToLog(t, config.Limits{Connections: 4, PerClient: 2}, zapcore.InfoLevel)
	ctx := testContext(t)
	for range 2 {
		c := s.dial(ctx, "tcp", netip.AddrPort{})
		if _, err := c.Mount(ctx, "/one"); err != nil {
			t.Fatal(err)
		}
	}
	const more = 5
	for range more {
		for _, c := range idle(t, s.tcp, netip.MustParseAddr("127.0.0.1"), 1) {
			c.SetReadDeadline(time.Now().Add(hang))
			if _, err := c.Read(make([]byte, 1)); err == nil {
				t.Error("there was a third place of two")
			}
		}
	}
	lines := s.lines.FilterMessage("connection refused").All()
	if len(lines) != 1 {
		t.Fatalf("%d lines of %d refusals", len(lines), more)
	}
	f := lines[0].ContextMap()
	if f["reason"] != "address_full" || f["transport"] != "tcp" || !strings.HasPrefix(fmt.Sprint(f["client"]), "127.0.0.1:") {
		t.Errorf("the line says %v", f)
	}
	for range 3 {
		idle(t, s.tcp, netip.MustParseAddr("127.0.0.3"), 1)
	}
	await(t, ctx, "a connection that was ended makes a line", func() bool {
		return len(s.lines.FilterMessage("connection ended").FilterField(zap.String("reason", "evicted")).All()) == 1
	})
}

// At the level debug the log shows each connection and its end, over both transports. At
// info it shows no connections that keep to the protocol.
func TestConnectionsAtDebug(t *testing.T) {
	for _, level := range []zapcore.Level{zapcore.DebugLevel, zapcore.InfoLevel} {
		s := newSiteToLog(t, config.Limits{}, level)
		ctx := testContext(t)
		for _, transport := range []string{"tcp", "rdma"} {
			c := s.dial(ctx, transport, netip.AddrPort{})
			if err := c.Null(ctx); err != nil {
				t.Fatal(err)
			}
			c.Close()
			await(t, ctx, "the connection ends", func() bool { return s.connections(transport) == 0 })
		}
		s.stop()
		for _, what := range []string{"connection connected", "connection closed"} {
			for _, transport := range []string{"tcp", "rdma"} {
				n := s.lines.FilterMessage(what).FilterField(zap.String("transport", transport)).Len()
				if want := map[bool]int{true: 1, false: 0}[level == zapcore.DebugLevel]; n != want {
					t.Errorf("%v: %d lines %q over %s", level, n, what, transport)
				}
			}
		}
	}
}

// A connection that ends by a fault causes a line with the reason and the remedy, over
// both transports: one line for each client, however many of its connections end.
func TestConnectionsThatEndByAFaultMakeALine(t *testing.T) {
	for transport, fault := range map[string]struct {
		cut     func(s *loggedSite)
		because string
	}{
		"tcp": {func(s *loggedSite) {
			c, err := net.Dial("tcp", s.tcp.String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := c.Write([]byte{0xff, 0xff, 0xff, 0xff}); err != nil {
				t.Fatal(err)
			}
			c.SetReadDeadline(time.Now().Add(hang))
			c.Read(make([]byte, 1))
		}, "record exceeds the limit"},
		"rdma": {func(s *loggedSite) {
			p := rawpeer.Dial(t, s.rdma)
			p.Initiate(rawpeer.LinuxRequest())
			p.WriteFPDU(rawpeer.Ready())
			p.WriteFPDU(make([]byte, 20)) // a frame with an invalid DDP version
			p.ReadMessage(iwarpwire.Terminate)
		}, ""},
	} {
		t.Run(transport, func(t *testing.T) {
			s := newSiteToLog(t, config.Limits{}, zapcore.InfoLevel)
			lines := func() *observer.ObservedLogs { return s.lines.FilterMessage("connection closed by a fault") }
			for range 3 {
				fault.cut(s)
			}
			await(t, testContext(t), "connections end", func() bool { return s.connections(transport) == 0 && lines().Len() > 0 })
			s.stop()
			if lines().Len() != 1 {
				t.Fatalf("%d lines", lines().Len())
			}
			f := lines().All()[0].ContextMap()
			if f["transport"] != transport || !strings.HasPrefix(fmt.Sprint(f["client"]), "127.") || f["remedy"] == "" ||
				!strings.Contains(fmt.Sprint(f["because"]), fault.because) || f["because"] == nil {
				t.Errorf("the line says %v", f)
			}
		})
	}
}

// At the level debug each RPC-over-RDMA message that is not served causes a line with the
// reason, the answer to the peer, and the rule of the RFC.
func TestRDMAFaultsAtDebug(t *testing.T) {
	for _, level := range []zapcore.Level{zapcore.DebugLevel, zapcore.InfoLevel} {
		s := newSiteToLog(t, config.Limits{}, level)
		p := rawpeer.Dial(t, s.rdma)
		p.Initiate(rawpeer.LinuxRequest())
		p.WriteFPDU(rawpeer.Ready())
		p.WriteFPDU(p.Send(rawpeer.Hex(t, "00000077 00000002 00000020 00000000 00000000 00000000 00000000")))
		if _, answer := p.ReadMessage(iwarpwire.Send); len(answer) != 28 {
			t.Errorf("a call of version 2 is answered with % x", answer)
		}
		lines := s.lines.FilterMessage("message not served").All()
		if level == zapcore.InfoLevel {
			if len(lines) != 0 {
				t.Errorf("%d lines at %v", len(lines), level)
			}
			continue
		}
		if len(lines) != 1 {
			t.Fatalf("%d lines at %v", len(lines), level)
		}
		f := lines[0].ContextMap()
		if f["reason"] != "version" || f["answer"] != "ERR_VERS" || fmt.Sprint(f["xid"]) != "119" ||
			!strings.Contains(fmt.Sprint(f["because"]), "RFC 8166 §4.5.1") || !strings.HasPrefix(fmt.Sprint(f["client"]), "127.") {
			t.Errorf("the line says %v", f)
		}
	}
}

// A loggedSite is a site whose log the test reads.
type loggedSite struct {
	*site
	lines *observer.ObservedLogs
}

func newSiteToLog(t testing.TB, limits config.Limits, level zapcore.Level) *loggedSite {
	t.Helper()
	core, lines := observer.New(level)
	return &loggedSite{newSiteWithin(t, limits, config.Memory{}, func(s *server.Server) { s.LogTo(zap.New(core)) }), lines}
}

// With 600 descriptors, thousands of peers that only set up RDMA connections or open TCP
// connections leave enough descriptors for files and honest clients.
func TestConnectionsLeaveDescriptorsToFiles(t *testing.T) {
	const limit, peers, files = 600, 1500, 200
	ip := ownLoopback()
	d := &daemon{tcp: servertest.FreePort(t, ip), rdma: servertest.FreePort(t, ip), export: t.TempDir(), state: t.TempDir()}
	// The soft limit is lower than the hard limit. The daemon raises it.
	d.Process = servertest.StartProcess(t, exec.Command("sh", "-c", fmt.Sprintf("ulimit -S -n 300 && ulimit -H -n %d && exec \"$0\" \"$@\"", limit),
		binary(t), "serve", "--state-dir", d.state, "--tcp", d.tcp.String(), "--rdma", d.rdma.String(),
		"--export", d.export+":/,insecure,no_root_squash"))
	d.AwaitLine("serving")
	ctx := testContext(t)
	honest := func(t *testing.T, transport string) {
		t.Helper()
		dial := map[string]func(context.Context, netip.AddrPort) (*servertest.Client, error){"tcp": servertest.DialTCP, "rdma": servertest.DialRDMA}
		c, err := dial[transport](ctx, map[string]netip.AddrPort{"tcp": d.tcp, "rdma": d.rdma}[transport])
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		dir, err := c.Mount(ctx, "/")
		if err != nil {
			t.Fatal(err)
		}
		for i := range files {
			name := fmt.Sprintf("%s-%s-%d", t.Name()[strings.LastIndexByte(t.Name(), '/')+1:], transport, i)
			h, err := c.Create(ctx, dir, name, 0o600)
			if err == nil {
				_, err = c.Write(ctx, h, 0, []byte("x"), wire.FileSync)
			}
			if err == nil {
				_, err = c.Lookup(ctx, dir, name)
			}
			if err != nil {
				t.Fatalf("file %d over %s: %v", i, transport, err)
			}
		}
		open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", d.PID()))
		if err != nil || len(open) > limit*9/10 {
			t.Errorf("%d of %d descriptors are in use, %v", len(open), limit, err)
		}
	}
	t.Run("RDMA set-ups", func(t *testing.T) {
		local := net.Dialer{LocalAddr: &net.TCPAddr{IP: ownLoopback().AsSlice()}, Timeout: hang}
		for range peers {
			c, err := local.Dial("tcp", d.rdma.String())
			if err != nil {
				t.Fatal(err)
			}
			rawpeer.New(t, c).WriteFrame(false, rawpeer.LinuxRequest())
		}
		honest(t, "tcp")
		honest(t, "rdma")
	})
	t.Run("TCP", func(t *testing.T) {
		idle(t, d.tcp, ownLoopback(), peers)
		honest(t, "rdma")
		honest(t, "tcp")
	})
}

// If the limit of open files does not allow the configured number of connections, the
// daemon lowers the number and logs that.
func TestMoreConnectionsThanOpenFiles(t *testing.T) {
	p := servertest.StartProcess(t, exec.Command("sh", "-c", "ulimit -n 600 && exec \"$0\" \"$@\"",
		binary(t), "serve", "--state-dir", t.TempDir(), "--tcp", "127.0.0.1:0", "--rdma", "none",
		"--config", writeFile(t, "nfsrdmad.toml", "[limits]\nconnections = 5000\n"), "--export", t.TempDir()+":/,insecure"))
	line := p.AwaitLine("the daemon uses a lower number")
	for _, s := range []string{"5000", "600", "LimitNOFILE"} {
		if !strings.Contains(line, s) {
			t.Errorf("%q does not say %s", line, s)
		}
	}
	p.AwaitLine("serving")
}
