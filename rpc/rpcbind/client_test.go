package rpcbind_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpcbind"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/transport/tcp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is an rpcbind for tests, with SET, UNSET, DUMP and other procedures as in RFC 1833 §2.2.1.
type fake struct {
	low, high uint32
	mu        sync.Mutex
	entries   []entry
	calls     []uint32 // procedures, in order
}

type entry struct {
	program, version   uint32
	netid, addr, owner string
}

var binding = rpc.Binding{Procedures: []rpc.Procedure{
	{Name: "NULL"},
	{Name: "SET", MaxArgs: 4096, MaxResults: 4},
	{Name: "UNSET", MaxArgs: 4096, MaxResults: 4},
	{Name: "GETADDR", MaxArgs: 4096, MaxResults: 1024},
	{Name: "DUMP", MaxResults: 64 << 10},
}}

func (f *fake) Number() uint32                                 { return rpcbind.Program }
func (f *fake) Versions() (low, high uint32)                   { return f.low, f.high }
func (f *fake) Binding(uint32) *rpc.Binding                    { return &binding }
func (f *fake) Judge(*rpc.Arrived, *rpc.Judgement) rpc.Outcome { return rpc.Done }

func (f *fake) Serve(c *rpc.Call, w *xdr.Writer) rpc.Outcome {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, c.Header.Procedure)
	d := &c.Args
	var e entry
	if p := c.Header.Procedure; p > 0 && p < 4 {
		e = entry{d.Uint32(), d.Uint32(), string(d.Opaque(99)), string(d.Opaque(99)), string(d.Opaque(99))}
	}
	if d.Finish() != nil {
		return rpc.GarbageArgs
	}
	same := func(x entry) bool {
		return x.program == e.program && x.version == e.version && (x.netid == e.netid || e.netid == "")
	}
	switch c.Header.Procedure {
	case 1:
		ok := e.netid != "" && e.addr != "" && !slices.ContainsFunc(f.entries, same)
		if ok {
			f.entries = append(f.entries, e)
		}
		w.Bool(ok)
	case 2:
		before := len(f.entries)
		f.entries = slices.DeleteFunc(f.entries, func(x entry) bool { return same(x) && x.owner == e.owner })
		w.Bool(len(f.entries) < before)
	case 3:
		addr := ""
		if i := slices.IndexFunc(f.entries, same); i >= 0 {
			addr = f.entries[i].addr
		}
		w.String(addr)
	case 4:
		for _, e := range f.entries {
			w.Bool(true)
			w.Uint32(e.program)
			w.Uint32(e.version)
			for _, s := range []string{e.netid, e.addr, e.owner} {
				w.String(s)
			}
		}
		w.Bool(false)
	}
	return rpc.Done
}

// serve serves p on l, and returns a Client of it.
func serve(t *testing.T, p rpc.Program, l net.Listener) *rpcbind.Client {
	pool, err := mem.NewPool(mem.Config{Ceiling: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	r := rpc.NewServer(rpc.Config{})
	r.Register(p)
	s := tcp.NewServer(tcp.Config{RPC: r, Pool: pool})
	go s.Serve(l)
	t.Cleanup(func() {
		s.Close()
		r.Close()
		pool.Close()
	})
	return &rpcbind.Client{
		Dial: tcp.DialConfig{}.Dialer(), Network: l.Addr().Network(), Address: l.Addr().String(), Owner: "nfsrdmad",
	}
}

func listen(t *testing.T, network, address string) net.Listener {
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// dead and living are for the parameter serves of Register: no server answers at an address, or a
// server answers at each.
func dead(context.Context, rpcbind.Mapping) bool   { return false }
func living(context.Context, rpcbind.Mapping) bool { return true }

// mappings returns the mappings of an NFS server: each program on each netid.
func mappings() (all []rpcbind.Mapping) {
	for _, a := range []struct{ transport, addr string }{
		{"tcp", "0.0.0.0:2049"}, {"tcp", "[::]:2049"}, {"rdma", "0.0.0.0:20049"}, {"rdma", "[::]:20049"},
	} {
		at := netip.MustParseAddrPort(a.addr)
		all = append(all, rpcbind.Mapping{
			Program: 100003, Version: 3, Netid: rpcbind.Netid(a.transport, at.Addr()), Address: at,
		})
	}
	return all
}

func TestRegister(t *testing.T) {
	for name, c := range map[string]struct {
		low, high        uint32
		network, address string
	}{
		"version 4, TCP":    {2, 4, "tcp", "127.0.0.1:0"},
		"version 3, TCP":    {2, 3, "tcp", "127.0.0.1:0"},
		"version 4, socket": {2, 4, "unix", filepath.Join(t.TempDir(), "rpcbind.sock")},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{low: c.low, high: c.high}
			// This is a registration that a killed server left.
			f.entries = []entry{{100003, 3, "tcp", "0.0.0.0.9.9", "nfsrdmad"}}
			b := serve(t, f, listen(t, c.network, c.address))
			ctx := context.Background()
			if err := b.Register(ctx, mappings(), dead); err != nil {
				t.Fatal(err)
			}
			want := []entry{
				{100003, 3, "tcp", "0.0.0.0.8.1", "nfsrdmad"},
				{100003, 3, "tcp6", "::.8.1", "nfsrdmad"},
				{100003, 3, "rdma", "0.0.0.0.78.81", "nfsrdmad"},
				{100003, 3, "rdma6", "::.78.81", "nfsrdmad"},
			}
			if !slices.Equal(f.entries, want) {
				t.Errorf("registered %+v", f.entries)
			}
			if !slices.Equal(f.calls, []uint32{4, 2, 1, 1, 1, 1}) {
				t.Errorf("procedures %v", f.calls)
			}
			f.calls = nil
			if err := b.Register(ctx, mappings(), living); err != nil || !slices.Equal(f.calls, []uint32{4}) {
				t.Errorf("again: %v, procedures %v", err, f.calls)
			}
			if a, err := b.GetAddr(ctx, 100003, 3, "rdma"); err != nil || a != netip.MustParseAddrPort("0.0.0.0:20049") {
				t.Errorf("GETADDR: %v, %v", a, err)
			}
			if _, err := b.GetAddr(ctx, 100003, 4, "tcp"); !errors.Is(err, rpcbind.ErrNotRegistered) {
				t.Errorf("GETADDR of nothing: %v", err)
			}
			all, err := b.Dump(ctx)
			if err != nil || len(all) != 4 || all[3].Address != netip.MustParseAddrPort("[::]:20049") || all[3].Netid != "rdma6" {
				t.Errorf("DUMP: %+v, %v", all, err)
			}
			if err := b.Unregister(ctx, mappings(), dead); err != nil || len(f.entries) != 0 {
				t.Errorf("UNSET: %v, left %+v", err, f.entries)
			}
		})
	}
}

// Register does not change the registration of another owner. It registers the other services.
func TestRegisteredByOthers(t *testing.T) {
	f := &fake{low: 2, high: 4, entries: []entry{{100003, 3, "tcp", "0.0.0.0.9.9", "superuser"}}}
	b := serve(t, f, listen(t, "tcp", "127.0.0.1:0"))
	err := b.Register(context.Background(), mappings(), dead)
	if !errors.Is(err, rpcbind.ErrTaken) {
		t.Errorf("%v", err)
	}
	if len(f.entries) != 4 || f.entries[0].owner != "superuser" {
		t.Errorf("%+v", f.entries)
	}
}

// If another server answers at the registered address, Register leaves that registration, and makes
// the others. Unregister also leaves it. It also leaves a registration with this server's address
// if a server, such as this server's successor, answers there.
func TestAnotherServerThatAnswersKeepsItsRegistration(t *testing.T) {
	other := entry{100003, 3, "tcp", "0.0.0.0.9.9", "nfsrdmad"}
	f := &fake{low: 2, high: 4, entries: []entry{other}}
	b := serve(t, f, listen(t, "tcp", "127.0.0.1:0"))
	ctx := context.Background()
	asked := 0
	err := b.Register(ctx, mappings(), func(_ context.Context, m rpcbind.Mapping) bool {
		asked++
		return m.Address == netip.MustParseAddrPort("0.0.0.0:2313")
	})
	if !errors.Is(err, rpcbind.ErrElsewhere) || asked != 1 || len(f.entries) != 4 || f.entries[0] != other {
		t.Errorf("%v, asked %d times: %+v", err, asked, f.entries)
	}
	if err := b.Unregister(ctx, mappings(), living); err != nil || len(f.entries) != 4 {
		t.Errorf("a successor's were taken back: %v, %+v", err, f.entries)
	}
	if err := b.Unregister(ctx, mappings(), dead); err != nil || !slices.Equal(f.entries, []entry{other}) {
		t.Errorf("%v, left %+v", err, f.entries)
	}
}

func TestNoRpcbind(t *testing.T) {
	l := listen(t, "tcp", "127.0.0.1:0")
	l.Close()
	b := &rpcbind.Client{Dial: tcp.DialConfig{}.Dialer(), Network: "tcp", Address: l.Addr().String()}
	if err := b.Register(context.Background(), mappings(), dead); err == nil {
		t.Error("registered although nothing listens")
	}
}

func TestUniversalAddress(t *testing.T) {
	for text, addr := range map[string]string{
		"127.0.0.1.8.1":     "127.0.0.1:2049",
		"192.0.2.1.78.81":   "192.0.2.1:20049",
		"2001:db8::1.0.111": "[2001:db8::1]:111",
		"::.255.255":        "[::]:65535",
	} {
		a := netip.MustParseAddrPort(addr)
		if got := rpcbind.UniversalAddress(a); got != text {
			t.Errorf("%v: %q", a, got)
		}
		if got, err := rpcbind.ParseUniversalAddress(text); err != nil || got != a {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	if got := rpcbind.UniversalAddress(netip.MustParseAddrPort("[::ffff:192.0.2.1]:111")); got != "192.0.2.1.0.111" {
		t.Errorf("mapped address: %q", got)
	}
	for _, bad := range []string{"", ".", "..", "1.2", "127.0.0.1", "127.0.0.1.256.1", "127.0.0.1.1.-1", "x.1.1", "/run/rpcbind.sock"} {
		if a, err := rpcbind.ParseUniversalAddress(bad); err == nil {
			t.Errorf("%q: %v", bad, a)
		}
	}
}
