package rdma

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// A tag is valid on its own connection only. Its use on another connection ends that connection and
// leaves the memory unchanged. rdmatest.Run proves this for every device. Rows V1-3 and V1-4 of
// docs/conformance.md.
func TestTagsBelongToTheirConnection(t *testing.T) {
	s := newScript(t, DialConfig{Reconnect: true}, nil)
	one := s.p
	sink := canary(100)
	done := s.start(getTo(100, sink))
	h, _ := s.next()
	tag := remote(offered(&h).writes[0][0], 0)

	second := make(chan *Client, 1)
	go func() {
		c, err := Dial(t.Context(), s.provider, s.listener.Addr(), DialConfig{})
		if err != nil {
			t.Error(err)
		}
		second <- c
	}()
	two := s.accept(nil)
	defer ended(t, second).Close()
	if err := two.Write(tag, pattern(100)); err == nil {
		t.Error("a tag of another connection was accepted")
	}
	if err := two.End(); err == nil {
		t.Error("the connection lives on")
	}
	if !bytes.Equal(sink, canary(100)) {
		t.Error("the sink changed")
	}
	s.p = one
	s.write(offered(&h).writes[0], pattern(100))
	s.reply(message{xid: h.XID, writes: [][]wire.Segment{used(offered(&h).writes[0], 100)}, payload: success(h.XID, 100)})
	if r := ended(t, done); r.err != nil || !bytes.Equal(r.data, pattern(100)) {
		t.Errorf("%v", r.err)
	}
}

// Handles cannot be guessed from earlier ones: no two are equal, and no constant step leads from
// one to the next. Each call has its own handle. Rows V1-6 and V1-7 of docs/conformance.md.
func TestHandlesAreUnpredictable(t *testing.T) {
	for name, device := range map[string]rdmacm.Provider{"memory": rdmatest.New(), "iwarp": newIwarp(t)} {
		t.Run(name, func(t *testing.T) {
			l, err := device.Listen(netip.MustParseAddrPort("127.0.0.1:0"))
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			seen, steps := map[uint32]bool{}, map[uint32]int{}
			last := uint32(0)
			dialed := make(chan *Client, 1)
			go func() {
				c, err := Dial(t.Context(), device, l.Addr(), DialConfig{Version2: speaking2})
				if err != nil {
					t.Error(err)
				}
				dialed <- c
			}()
			p := rdmatest.AcceptPeer(t, l, rdmatest.PeerParam{ConnParam: rdmacm.ConnParam{Receives: 2000, ReceiveSize: 4096}})
			s := &script{t: t, p: p}
			if speaking2 {
				s.settle2()
			}
			c := ended(t, dialed)
			defer c.Close()
			for range 1000 {
				x, done := getTo(10, make([]byte, 10)), make(chan struct{})
				x.Done = func(*rpc.Exchange) { close(done) }
				c.Start(x)
				h, _ := s.next()
				handle := h.Writes.Next().At(0).Handle
				if seen[handle] {
					t.Fatalf("handle %#x again", handle)
				}
				seen[handle] = true
				steps[handle-last]++
				last = handle
				s.refuse(&h)
				ended(t, done)
			}
			for step, n := range steps {
				if n > 3 {
					t.Errorf("%d handles follow the one before by %#x", n, step)
				}
			}
		})
	}
}

// A small call with the largest credential is still Short, and a reply with the largest verifier
// still fits a Send. Rows V1-105, V1-67 and L-12 of docs/conformance.md.
func TestLargeCredentials(t *testing.T) {
	s := newScript(t, DialConfig{}, nil)
	x := exchangeFor(rpctest.NULL, nil)
	x.Cred = rpc.AuthBytes{Flavor: rpc.AuthGSS, Body: pattern(rpc.MaxAuthBytes)}
	x.Binding = &rpc.Procedure{MaxResults: 112}
	done := s.start(x)
	h, payload := s.next()
	if h.Proc != wire.ProcMsg || h.Reply.Present || len(payload) != 440 || !bytes.Equal(payload[32:432], pattern(400)) {
		t.Errorf("%v, Reply chunk %v, %d bytes", h.Proc, h.Reply.Present, len(payload))
	}
	w := xdr.NewWriter(make([]byte, 0, 1024))
	for _, v := range []uint32{h.XID, 1, 0, uint32(rpc.AuthGSS)} {
		w.Uint32(v)
	}
	w.Opaque(pattern(rpc.MaxAuthBytes))
	w.Uint32(0)
	w.Opaque(pattern(108))
	m := message{xid: h.XID, payload: w.Bytes()}
	if n := len(m.bytes()); n > 1024 {
		t.Fatalf("the largest reply has %d bytes", n)
	}
	s.reply(m)
	if r := ended(t, done); r.err != nil || !bytes.Equal(r.data, pattern(108)) {
		t.Errorf("%v", r.err)
	}
}
