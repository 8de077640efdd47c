package relay_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/client/relay"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpcbind"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/testserver"
	"github.com/nfsrdmad/nfsrdmad/transport/tcp"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/mount3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

var unchecked = nfs3wire.CreateHow3{ObjAttributes: nfs3wire.Sattr3{Mode: nfs3wire.SetMode3{SetIt: true, Mode: 0o640}}}

// startRelay runs a relay with cfg and returns its address.
func startRelay(t *testing.T, cfg relay.Config) client.Target {
	l, err := net.Listen("tcp", testserver.Loopback.String())
	must(t, err)
	a := l.Addr().(*net.TCPAddr)
	cfg.Port = a.Port
	r, err := relay.New(cfg)
	must(t, err)
	must(t, r.Check(testserver.Within(t)))
	ended := make(chan error, 1)
	go func() { ended <- r.Serve(l) }()
	t.Cleanup(func() {
		r.Close()
		if err := <-ended; err != relay.ErrClosed {
			t.Errorf("Serve ended with %v", err)
		}
	})
	return client.Target{Transport: client.TCP, Host: "127.0.0.1", Port: a.Port, Cred: client.Self()}
}

func relays(t *testing.T, f func(t *testing.T, s *testserver.Server, at client.Target)) {
	s := testserver.Start(t)
	s.RPC.Register(rpctest.NewProgram())
	for _, name := range []string{"iwarp", "memory", "memory2"} {
		t.Run(name, func(t *testing.T) {
			f(t, s, startRelay(t, relay.Config{Target: s.Targets()[name], MountPort: int(s.TCP.Port())}))
		})
	}
}

// A TCP client can use NFS through a relay: MOUNT, READ and WRITE with placed data, and listings
// in Reply chunks.
func TestRelayCarriesNFS(t *testing.T) {
	relays(t, func(t *testing.T, s *testserver.Server, at client.Target) {
		c := testserver.Dial(t, at)
		ctx, n := testserver.Within(t), c.NFS3()
		root, err := c.MountRoot(ctx, "/x", 0)
		must(t, err)
		dir, err := n.Mkdir(ctx, root, fmt.Sprint("relayed-", at.Port), nfs3wire.Sattr3{Mode: nfs3wire.SetMode3{SetIt: true, Mode: 0o755}})
		must(t, err)
		file, _, err := n.Create(ctx, dir, "file", unchecked)
		must(t, err)
		for _, size := range []int{1, 5, 4096, 100_003, 1 << 20} {
			w, err := n.Write(ctx, file, 0, testserver.Pattern(size), nfs3wire.FileSync)
			must(t, err)
			got := make([]byte, size)
			count, _, err := n.Read(ctx, file, 0, got)
			must(t, err)
			if w.Count != size || count != size || !bytes.Equal(got, testserver.Pattern(size)) {
				t.Errorf("%d bytes: %d written, %d read, or others", size, w.Count, count)
			}
		}
		// The relay asks the server for at most 1 MiB in one call, as a server may return less
		// than it is asked for.
		if count, eof, err := n.Read(ctx, file, 0, make([]byte, 2<<20)); err != nil || count != 1<<20 {
			t.Errorf("READ of 2 MiB gives %d, eof %v: %v", count, eof, err)
		}
		if count, eof, err := n.Read(ctx, file, 1<<20, make([]byte, 100)); err != nil || count != 0 || !eof {
			t.Errorf("READ at the end gives %d, eof %v: %v", count, eof, err)
		}
		text := string(testserver.Pattern(300)[1:]) // without a zero byte
		text = string(bytes.ReplaceAll([]byte(text), []byte{0}, []byte{'0'}))
		must(t, n.Symlink(ctx, dir, "link", text))
		link, _, err := n.Lookup(ctx, dir, "link")
		must(t, err)
		if got, err := n.Readlink(ctx, link); err != nil || got != text {
			t.Errorf("READLINK gives %q: %v", got, err)
		}
		for i := range 600 {
			must(t, n.Link(ctx, file, dir, fmt.Sprintf("another-name-of-the-same-file-%04d", i)))
		}
		seen := 0
		for e, err := range n.ReaddirPlus(ctx, dir) {
			must(t, err)
			if e.Name != "." && e.Name != ".." {
				seen++
			}
		}
		if seen != 602 {
			t.Errorf("%d names listed", seen)
		}
		if s.RDMA.Stats().BytesRead.Load() == 0 || s.RDMA.Stats().BytesWritten.Load() == 0 || s.RDMA.Stats().LongReplies.Load() == 0 {
			t.Errorf("nothing was placed: %+v", s.RDMA.Stats())
		}
		// The relay passes on a status other than OK, and a refusal by RPC.
		_, _, err = n.Lookup(ctx, dir, "nothing")
		if e, ok := errors.AsType[*client.StatusError](err); !ok || e.Status != nfs3wire.NFS3ErrNoEnt {
			t.Errorf("LOOKUP of nothing: %v", err)
		}
		for _, c := range []struct {
			program, version uint32
			want             rpc.ReplyError
		}{
			{nfs3wire.Program, 2, rpc.ReplyError{Stat: rpc.AcceptProgMismatch, Low: 3, High: 3}},
			{400000, 1, rpc.ReplyError{Stat: rpc.AcceptProgUnavail}},
		} {
			err := testserver.Dial(t, at).Null(ctx, c.program, c.version)
			if e, ok := errors.AsType[*rpc.ReplyError](err); !ok || *e != c.want {
				t.Errorf("program %d version %d: %v", c.program, c.version, err)
			}
		}
		// A client gets the same answer from the relay as from the server.
		_, err = n.Getattr(ctx, client.Handle("no handle of anybody"))
		if e, ok := errors.AsType[*client.StatusError](err); !ok || e.Status != nfs3wire.NFS3ErrBadHandle && e.Status != nfs3wire.NFS3ErrStale {
			t.Errorf("GETATTR of nonsense: %v", err)
		}
	})
}

// Large calls and replies of programs without a known binding are sent as Long messages.
func TestRelayCarriesForeignPrograms(t *testing.T) {
	relays(t, func(t *testing.T, s *testserver.Server, at client.Target) {
		c := testserver.Dial(t, at)
		for _, size := range []int{0, 1, 1000, rpctest.MaxEcho} {
			before := s.RDMA.Stats().LongCalls.Load()
			var got []byte
			err := c.Call(testserver.Within(t), &rpc.Exchange{
				Program: rpctest.Number, Version: 1, Procedure: rpctest.ECHO,
				Args: func(w *xdr.Writer) { w.Opaque(testserver.Pattern(size)) }, MaxArgs: size + 8, MaxResults: size + 8,
			}, func(d *xdr.Decoder) error {
				got = bytes.Clone(d.Opaque(rpctest.MaxEcho))
				return d.Finish()
			})
			must(t, err)
			if !bytes.Equal(got, testserver.Pattern(size)) {
				t.Errorf("ECHO of %d bytes differs", size)
			}
			if long := s.RDMA.Stats().LongCalls.Load() > before; long != (size > 4096) {
				t.Errorf("ECHO of %d bytes long: %v", size, long)
			}
		}
	})
}

// A rawClient is a scripted client that can send any bytes.
type rawClient struct {
	t *testing.T
	c net.Conn
}

func rawDial(t *testing.T, at client.Target) *rawClient {
	c, err := net.Dial("tcp", at.Address())
	must(t, err)
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(testserver.Patience))
	return &rawClient{t, c}
}

func (r *rawClient) send(fragments ...[]byte) {
	for i, f := range fragments {
		mark := uint32(len(f))
		if i == len(fragments)-1 {
			mark |= 1 << 31
		}
		r.c.Write(append(binary.BigEndian.AppendUint32(nil, mark), f...))
	}
}

// record returns the next reply, or nil at the connection's end.
func (r *rawClient) record() []byte {
	var head [4]byte
	if _, err := io.ReadFull(r.c, head[:]); err != nil {
		return nil
	}
	b := make([]byte, binary.BigEndian.Uint32(head[:])&^(1<<31))
	if _, err := io.ReadFull(r.c, b); err != nil {
		r.t.Fatal(err)
	}
	return b
}

func (r *rawClient) reply() (d *xdr.Decoder, xid uint32, err error) {
	b := r.record()
	if b == nil {
		return nil, 0, io.EOF
	}
	d = xdr.NewDecoder(b)
	xid, _, err = rpc.ReadReply(d)
	return d, xid, err
}

// grant makes a call whose reply grants credits, because a connection begins with one credit (RFC
// 8166 §3.3.3).
func (r *rawClient) grant() {
	r.send(null(99))
	_, _, err := r.reply()
	must(r.t, err)
}

func null(xid uint32) []byte {
	return rpctest.CallMessage(rpc.CallHeader{XID: xid, Program: nfs3wire.Program, Version: 3}, nil)
}

// The relay answers calls in fragments, several calls in one TCP segment, and the calls of a
// client that has closed its side.
func TestRelayRecords(t *testing.T) {
	relays(t, func(t *testing.T, s *testserver.Server, at client.Target) {
		r := rawDial(t, at)
		m := null(7)
		var parts [][]byte
		for len(m) > 0 {
			parts = append(parts, m[:4])
			m = m[4:]
		}
		r.send(append(parts, nil)...)
		if _, xid, err := r.reply(); err != nil || xid != 7 {
			t.Fatalf("fragments: reply %d: %v", xid, err)
		}
		var many []byte
		for i := range uint32(300) {
			m := null(1000 + i)
			many = append(binary.BigEndian.AppendUint32(many, uint32(len(m))|1<<31), m...)
		}
		go func() {
			r.c.Write(many)
			r.c.(*net.TCPConn).CloseWrite()
		}()
		seen := map[uint32]bool{}
		for {
			_, xid, err := r.reply()
			if err == io.EOF {
				break
			}
			must(t, err)
			seen[xid] = true
		}
		if len(seen) != 300 {
			t.Errorf("%d of 300 calls answered before the end", len(seen))
		}
	})
}

// A call that stalls does not delay later calls.
func TestRelayAnswersOutOfOrder(t *testing.T) {
	s := testserver.Start(t)
	toy := rpctest.NewProgram()
	s.RPC.Register(toy)
	r := rawDial(t, startRelay(t, relay.Config{Target: s.Targets()["memory"]}))
	r.grant()
	const lane = 3
	r.send(rpctest.Message(1, rpctest.STALL, func(w *xdr.Writer) { w.Uint32(lane) }))
	r.send(null(2))
	r.send(null(3))
	var order []uint32
	for range 2 {
		_, xid, err := r.reply()
		must(t, err)
		order = append(order, xid)
	}
	toy.Release(lane)
	_, xid, err := r.reply()
	must(t, err)
	if order = append(order, xid); !slices.Equal(order, []uint32{2, 3, 1}) && !slices.Equal(order, []uint32{3, 2, 1}) {
		t.Errorf("replies came in order %v", order)
	}
}

// The relay itself refuses calls that it cannot carry, and passes on the server's refusals.
func TestRelayRefusals(t *testing.T) {
	relays(t, func(t *testing.T, s *testserver.Server, at client.Target) {
		long := make([]byte, 500)
		for name, c := range map[string]struct {
			message []byte
			want    rpc.ReplyError
		}{
			"RPCSEC_GSS": {
				rpctest.CallMessage(rpc.CallHeader{XID: 1, Program: nfs3wire.Program, Version: 3, Cred: rpc.AuthBytes{Flavor: rpc.AuthGSS, Body: long[:20]}}, nil),
				rpc.ReplyError{Denied: true, Auth: rpc.AuthRejectedCred},
			},
			"verifier": {
				rpctest.CallMessage(rpc.CallHeader{XID: 1, Program: nfs3wire.Program, Version: 3, Verf: rpc.AuthBytes{Flavor: rpc.AuthShort, Body: long[:4]}}, nil),
				rpc.ReplyError{Denied: true, Auth: rpc.AuthBadVerf},
			},
			"credential too long": {
				rpctest.CallMessage(rpc.CallHeader{XID: 1, Program: nfs3wire.Program, Version: 3, Cred: rpc.AuthBytes{Flavor: rpc.AuthSys, Body: long}}, nil),
				rpc.ReplyError{Denied: true, Auth: rpc.AuthBadCred},
			},
			"version of RPC": {
				append(binary.BigEndian.AppendUint32(append([]byte{0, 0, 0, 1}, 0, 0, 0, 0), 3), null(1)[12:]...),
				rpc.ReplyError{Denied: true, Low: 2, High: 2},
			},
			"rpcbind version 1": {
				rpctest.CallMessage(rpc.CallHeader{XID: 1, Program: 100000, Version: 1}, nil),
				rpc.ReplyError{Stat: rpc.AcceptProgMismatch, Low: 2, High: 4},
			},
			"registration": {
				rpctest.CallMessage(rpc.CallHeader{XID: 1, Program: 100000, Version: 2, Procedure: 1}, nil),
				rpc.ReplyError{Stat: rpc.AcceptProcUnavail},
			},
			"rpcbind without arguments": {
				rpctest.CallMessage(rpc.CallHeader{XID: 1, Program: 100000, Version: 4, Procedure: 3}, nil),
				rpc.ReplyError{Stat: rpc.AcceptGarbageArgs},
			},
			"garbage for the server": {
				rpctest.CallMessage(rpc.CallHeader{XID: 1, Program: nfs3wire.Program, Version: 3, Procedure: 7}, func(w *xdr.Writer) { w.Uint32(9999) }),
				rpc.ReplyError{Stat: rpc.AcceptGarbageArgs},
			},
		} {
			r := rawDial(t, at)
			r.send(c.message)
			_, xid, err := r.reply()
			if e, ok := errors.AsType[*rpc.ReplyError](err); !ok || xid != 1 || *e != c.want {
				t.Errorf("%s: %v", name, err)
			}
		}
		// A record that is not a call, or is too long, ends only its own connection.
		for name, b := range map[string][]byte{
			"a reply":     append([]byte{0x80, 0, 0, 24}, make([]byte, 20)...),
			"a huge mark": {0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0},
			"cut off":     {0x80, 0, 0, 40, 0, 0, 0, 1},
		} {
			r := rawDial(t, at)
			if name == "a reply" {
				b = append([]byte{0x80, 0, 0, 24}, append([]byte{0, 0, 0, 1, 0, 0, 0, 1}, make([]byte, 16)...)...)
			}
			r.c.Write(b)
			r.c.(*net.TCPConn).CloseWrite()
			if m := r.record(); m != nil {
				t.Errorf("%s: answered by %x", name, m)
			}
		}
		must(t, testserver.Dial(t, at).Null(testserver.Within(t), nfs3wire.Program, 3))
	})
}

// Clients that ask rpcbind get the relay's own address.
func TestRelayAnswersRPCBind(t *testing.T) {
	s := testserver.Start(t)
	at := startRelay(t, relay.Config{Target: s.Targets()["memory"]})
	b := rpcbind.Client{Dial: tcp.DialConfig{}.Dialer(), Network: "tcp", Address: at.Address()}
	want := netip.MustParseAddrPort(at.Address())
	for _, program := range []uint32{nfs3wire.Program, mount3wire.Program, rpcbind.Program} {
		if got, err := b.GetAddr(t.Context(), program, 3, rpcbind.TCP); err != nil || got != want {
			t.Errorf("program %d is at %v: %v", program, got, err)
		}
	}
	if _, err := b.GetAddr(t.Context(), 100021, 4, rpcbind.TCP); !errors.Is(err, rpcbind.ErrNotRegistered) {
		t.Errorf("a program that is not relayed: %v", err)
	}
	if all, err := b.Dump(t.Context()); err != nil || len(all) != 4 {
		t.Errorf("listed %+v: %v", all, err)
	}
}
