package version2

import (
	"bytes"
	"net/netip"
	"slices"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/rawpeer"
	iwarpwire "github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// A peer is a scripted peer on an established RDMA connection.
type peer struct{ *rawpeer.Peer }

// send sends a message of version 2, or of any other version.
func (p peer) send(message []byte) { p.T.Helper(); p.WriteFPDU(p.Send(message)) }

// next returns the next FPDU that is not an empty RDMA Write. The software RNIC sends an empty
// one to let the other side begin, and may repeat it.
func (p peer) next() rawpeer.FPDU {
	p.T.Helper()
	for {
		if f := p.ReadFPDU(); f.Op != iwarpwire.Write || len(f.Payload) > 0 {
			return f
		}
	}
}

// receive returns the next message of the other side that is no grant.
func (p peer) receive() []byte {
	p.T.Helper()
	for {
		f := p.next()
		message := append([]byte(nil), f.Payload...)
		for ; f.Op == iwarpwire.Send && !f.Last; message = append(message, f.Payload...) {
			f = p.next()
		}
		q, ok := wire.ParsePrefix2(message)
		if f.Op != iwarpwire.Send || !ok {
			p.T.Fatalf("%v %x where a message was due", f.Op, message)
		}
		if q.Version != wire.Version2 || q.Type != wire.TypeGrant {
			return message
		}
		if q.XID != 0 || len(message) != wire.PrefixSize {
			p.T.Errorf("a grant %x (V2-50)", message)
		}
	}
}

// wantError receives an RDMA2_ERROR with this XID, version and body.
func (p peer) wantError(xid, version uint32, body wire.ErrorBody2) {
	p.T.Helper()
	want := make([]byte, wire.MaxError2Size)
	got := p.receive()
	q, _ := wire.ParsePrefix2(got)
	want = want[:body.Put(want, wire.Prefix2{XID: xid, Version: version, Limit: q.Limit})]
	if !bytes.Equal(got, want) {
		e, _ := wire.ParseErrorBody2(got)
		p.T.Fatalf("got %+v %v (%x), want %v for XID %#x of version %d", q, e, got, body, xid, version)
	}
}

// bump returns the RPC message of a call that is counted when it is executed.
func bump(xid uint32) []byte {
	return rpctest.Message(xid, rpctest.BUMP, func(w *xdr.Writer) { w.Opaque([]byte("once")) })
}

// A responder is a server of the test program over the software RNIC.
type responder struct {
	addr   netip.AddrPort
	server *rdma.Server
	pool   *mem.Pool
}

// apart is the test program, except that ECHO keeps its result, which is not eligible, apart from the words of the reply, as
// programs keep payload. So a transport could take it for an eligible one.
type apart struct{ *rpctest.Program }

func (p apart) Serve(c *rpc.Call, w *xdr.Writer) rpc.Outcome {
	echoes, before := c.Header.Procedure == rpctest.ECHO && !c.Early, w.Len()
	out := p.Program.Serve(c, w)
	if echoes && out == rpc.Done {
		result := xdr.NewDecoder(slices.Clone(w.Bytes()[before:])).Opaque(rpctest.MaxEcho)
		w.Truncate(before)
		w.Payload(result, false, nil)
	}
	return out
}

func newResponder(t *testing.T, config rdma.Config) *responder {
	t.Helper()
	device, err := iwarp.New(iwarp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	program := rpctest.NewProgram()
	calls := rpc.NewServer(rpc.Config{})
	calls.Register(apart{program})
	pool, err := mem.NewPool(mem.Config{Ceiling: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	config.RPC, config.Pool = calls, pool
	server, err := rdma.NewServer(config)
	if err != nil {
		t.Fatal(err)
	}
	l, err := device.Listen(netip.MustParseAddrPort("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		await.Return(t, "Close of the server returns", func() { server.Close() })
		if err := await.Receive(t, "Serve returns", served); err != rdma.ErrServerClosed {
			t.Errorf("Serve returned %v", err)
		}
		await.Return(t, "Close of RPC returns", calls.Close)
		await.Return(t, "the program's calls end", program.Wait)
		if s := pool.Stats(); s.InUse != 0 {
			t.Errorf("%d bytes of memory were not given back", s.InUse)
		}
		pool.Close()
	})
	return &responder{l.Addr(), server, pool}
}

// dial connects a scripted peer.
func (r *responder) dial(t *testing.T) peer {
	t.Helper()
	p := rawpeer.Dial(t, r.addr)
	p.Initiate(rawpeer.LinuxRequest())
	return peer{p}
}
