package rpcbind_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpcbind"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/transport/tcp"
)

const servedPort = 20490

// run serves p on a loopback address, and returns a Client of it.
func run(t *testing.T, p rpc.Program) *rpcbind.Client {
	return serve(t, p, listen(t, "tcp", "127.0.0.1:0"))
}

func newServer() *rpcbind.Server {
	return &rpcbind.Server{
		Services: []rpcbind.Service{{Program: 100003, Version: 3}, {Program: 100003, Version: 4}, {Program: 100005, Version: 3}},
		Port:     servedPort,
	}
}

// An asker makes calls to a Server.
type asker struct {
	t *testing.T
	c *tcp.Conn
}

func (a *asker) ask(version, procedure uint32, args func(w *xdr.Writer), read func(d *xdr.Decoder)) error {
	return rpc.Do(context.Background(), a.c, &rpc.Exchange{
		Program: rpcbind.Program, Version: version, Procedure: procedure, Args: args, MaxArgs: 256, MaxResults: 4096,
	}, func(d *xdr.Decoder) error {
		read(d)
		return d.Finish()
	})
}

func (a *asker) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Error(err)
	}
}

func dialServer(t *testing.T) *asker {
	c, err := tcp.Dial(context.Background(), run(t, newServer()).Address, tcp.DialConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &asker{t, c}
}

// The Server answers GETPORT of version 2 (RFC 1833 §3.2).
func TestServerTellsPorts(t *testing.T) {
	a := dialServer(t)
	for _, q := range []struct{ program, version, protocol, want uint32 }{
		{100003, 3, 6, servedPort}, {100003, 2, 6, servedPort}, {100005, 3, 6, servedPort}, {100003, 3, 17, 0}, {100021, 4, 6, 0},
	} {
		a.must(a.ask(2, 3, func(w *xdr.Writer) {
			for _, v := range []uint32{q.program, q.version, q.protocol, 0} {
				w.Uint32(v)
			}
		}, func(d *xdr.Decoder) {
			if port := d.Uint32(); port != q.want {
				t.Errorf("GETPORT of %d over %d is %d", q.program, q.protocol, port)
			}
		}))
	}
}

// The Server answers GETADDR of versions 3 and 4, and GETVERSADDR of version 4 (RFC 1833 §2.2).
func TestServerTellsAddresses(t *testing.T) {
	a := dialServer(t)
	const uaddr = "127.0.0.1.80.10"
	for version, procedures := range map[uint32][]uint32{3: {3}, 4: {3, 9}} {
		for _, procedure := range procedures {
			for _, q := range []struct {
				program     uint32
				netid, want string
			}{{100003, "tcp", uaddr}, {100003, "tcp6", ""}, {100003, "udp", ""}, {100021, "tcp", ""}} {
				a.must(a.ask(version, procedure, func(w *xdr.Writer) {
					w.Uint32(q.program)
					w.Uint32(3)
					for _, s := range []string{q.netid, "", ""} {
						w.String(s)
					}
				}, func(d *xdr.Decoder) {
					if got := string(d.Opaque(256)); got != q.want {
						t.Errorf("version %d procedure %d: %d over %s is at %q", version, procedure, q.program, q.netid, got)
					}
				}))
			}
		}
	}
	a.must(a.ask(4, 6, nil, func(d *xdr.Decoder) {
		if now := int64(d.Uint32()); now > time.Now().Unix() || now < time.Now().Add(-time.Hour).Unix() {
			t.Errorf("GETTIME says %d", now)
		}
	}))
}

func TestServerListsServices(t *testing.T) {
	a := dialServer(t)
	for version := uint32(2); version <= 4; version++ {
		n := 0
		a.must(a.ask(version, 4, nil, func(d *xdr.Decoder) {
			for d.Bool() {
				n++
				d.Skip(8)
				if version == 2 {
					d.Skip(8)
					continue
				}
				for range 3 {
					d.Opaque(256)
				}
			}
		}))
		if n != 3 {
			t.Errorf("DUMP of version %d lists %d services", version, n)
		}
		a.must(a.ask(version, 0, nil, func(*xdr.Decoder) {}))
	}
}

// The Server replies with an error to a call that it does not serve or cannot decode.
func TestServerRefuses(t *testing.T) {
	a := dialServer(t)
	for what, q := range map[string]struct {
		version, procedure uint32
		want               rpc.ReplyError
	}{
		"version 1":            {1, 0, rpc.ReplyError{Stat: rpc.AcceptProgMismatch, Low: 2, High: 4}},
		"SET of version 2":     {2, 1, rpc.ReplyError{Stat: rpc.AcceptProcUnavail}},
		"UNSET of version 4":   {4, 2, rpc.ReplyError{Stat: rpc.AcceptProcUnavail}},
		"CALLIT":               {3, 5, rpc.ReplyError{Stat: rpc.AcceptProcUnavail}},
		"GETVERSADDR in 3":     {3, 9, rpc.ReplyError{Stat: rpc.AcceptProcUnavail}},
		"GETPORT of nothing":   {2, 3, rpc.ReplyError{Stat: rpc.AcceptGarbageArgs}},
		"GETADDR of nothing":   {4, 3, rpc.ReplyError{Stat: rpc.AcceptGarbageArgs}},
		"a procedure far away": {4, 1 << 30, rpc.ReplyError{Stat: rpc.AcceptProcUnavail}},
	} {
		err := a.ask(q.version, q.procedure, nil, func(*xdr.Decoder) {})
		if re, ok := errors.AsType[*rpc.ReplyError](err); !ok || *re != q.want {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// upTo is a Server whose highest version is high.
type upTo struct {
	*rpcbind.Server
	high uint32
}

func (u upTo) Versions() (low, high uint32) { return 2, u.high }

// A Client finds a service with any version of rpcbind. From a port mapper (version 2) it gets the
// port, but no address.
func TestClientAsksEveryVersion(t *testing.T) {
	for high, address := range map[uint32]string{2: "0.0.0.0", 3: "127.0.0.1", 4: "127.0.0.1"} {
		c := run(t, upTo{newServer(), high})
		want := netip.AddrPortFrom(netip.MustParseAddr(address), servedPort)
		if at, err := c.GetAddr(t.Context(), 100005, 3, rpcbind.TCP); err != nil || at != want {
			t.Errorf("versions up to %d: at %v: %v", high, at, err)
		}
		if at, err := c.GetAddr(t.Context(), 100021, 4, rpcbind.TCP); !errors.Is(err, rpcbind.ErrNotRegistered) {
			t.Errorf("versions up to %d: what is not there is at %v: %v", high, at, err)
		}
	}
}
