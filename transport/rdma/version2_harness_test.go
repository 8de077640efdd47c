package rdma

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// A peer2 is a scripted client that speaks version 2. It counts messages as the draft says.
type peer2 struct {
	t        testing.TB
	p        *rdmatest.Peer
	limit    uint32 // what it permits the server to send in all
	frozen   bool   // it permits no more when it receives
	sent     uint32
	received uint32
	permits  uint32 // the last credits of the server
}

// peer2 connects a scripted client that permits the server 64 messages.
func (b *bench) peer2() *peer2 {
	return &peer2{t: b.t, p: b.peerWith(nil, 66), limit: 64}
}

// send sends the bytes, after it has set their credits.
func (p *peer2) send(m []byte) {
	p.t.Helper()
	p.sent++
	if len(m) >= wire.PrefixSize {
		q, _ := wire.ParsePrefix2(m)
		q.Limit = p.limit
		q.Put(m)
	}
	if err := p.p.Send(m); err != nil {
		p.t.Fatal(err)
	}
}

// next returns the next message of the server.
func (p *peer2) next() (wire.Prefix2, []byte) {
	p.t.Helper()
	m := p.p.Receive()
	q, ok := wire.ParsePrefix2(m.Bytes)
	if !ok || q.Type != wire.TypeError && q.Version != wire.Version2 { // rows V2-1, V2-16
		p.t.Fatalf("the server sends % x", m.Bytes)
	}
	p.received++
	p.permits = q.Limit
	p.p.Promise(1)
	if !p.frozen {
		p.limit++
	}
	return q, m.Bytes
}

// call2 returns a call of the toy program without chunks.
func call2(xid, procedure uint32) []byte {
	return message2(wire.TypeCallInline, xid, nil, rpctest.Message(xid, procedure, nil))
}

// message2 returns a message: a header without lists, or with these words in their place, and a payload.
func message2(t wire.HeaderType, xid uint32, body []uint32, payload []byte) []byte {
	b := make([]byte, wire.PrefixSize)
	wire.Prefix2{XID: xid, Version: wire.Version2, Type: t}.Put(b)
	if body == nil {
		switch t {
		case wire.TypeCallInline:
			body = []uint32{0, 0, 0, 0}
		case wire.TypeReplyInline:
			body = []uint32{0}
		}
	}
	return append(append(b, words(body...)...), payload...)
}

// properties2 returns an RDMA2_CONNPROP_FINAL.
func properties2(xid uint32, p wire.Properties, which ...wire.PropertyID) []byte {
	b := make([]byte, p.Size(which...))
	p.Put(b, wire.Prefix2{XID: xid, Version: wire.Version2, Type: wire.TypeConnpropFinal}, which...)
	return b
}

// open makes the first exchange: the client's properties without a value, and the server's.
func (p *peer2) open() {
	p.t.Helper()
	p.send(properties2(7, wire.DefaultProperties()))
	q, _ := p.next()
	if q.Type != wire.TypeConnpropFinal {
		p.t.Fatalf("the server begins with %v", q.Type)
	}
}

// wantError2 checks an RDMA2_ERROR (rows V2-67, V2-68, V2-69).
func (p *peer2) wantError2(xid, version uint32, code wire.ErrorCode2) wire.ErrorBody2 {
	p.t.Helper()
	q, m := p.next()
	e, ok := wire.ParseErrorBody2(m)
	if !ok || q.Type != wire.TypeError || q.XID != xid || q.Version != version || e.Code != code {
		p.t.Fatalf("want %v for XID %#x version %d, got % x", code, xid, version, m)
	}
	return e
}

// wantEnd fails the test with the message kept unless the server ends p's connection because of a fault. RDMA devices
// do not tell the peer whether there was one: over them the connection only has to end.
func wantEnd(t testing.TB, p *rdmatest.Peer, kept string) {
	t.Helper()
	if err := p.End(); err == nil && elsewhere == nil {
		t.Error(kept)
	}
}

// alive fails the test unless the connection still serves a NULL.
func (p *peer2) alive() {
	p.t.Helper()
	const xid = 0xa11fe
	p.send(call2(xid, rpctest.NULL))
	q, m := p.next()
	if q.Type != wire.TypeReplyInline || q.XID != xid {
		p.t.Fatalf("NULL is answered by % x", m)
	}
	results(p.t, xid, m[wire.MinReplyInline:])
}

// newScript2 connects a Client that proposes version 2 to a scripted server. answer is the server's answer to
// the client's first message. If it is nil, the server ends the connection, and accepts another one.
func newScript2(t testing.TB, cfg DialConfig, answer []byte) (s *script, first []byte) {
	t.Helper()
	cfg.Version2 = true
	s = listening(t, rdmatest.Config{})
	done := make(chan error, 1)
	go func() {
		var err error
		s.client, err = Dial(t.Context(), s.device, s.listener.Addr(), cfg)
		done <- err
	}()
	s.p = s.accept(nil)
	first = s.p.Receive().Bytes
	if answer != nil {
		s.sendRaw(answer)
	} else {
		s.p.Conn().Abort(nil)
		s.p = s.accept(nil)
	}
	if err := ended(t, done); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.auditSums()
		s.listener.Close()
		s.client.Close()
	})
	return s, first
}

func (s *script) sendRaw(m []byte) {
	s.t.Helper()
	if err := s.p.Send(m); err != nil {
		s.t.Fatal(err)
	}
}

// next2 returns the next message of the client, which must have version 2.
func (s *script) next2() (wire.Prefix2, []byte) {
	s.t.Helper()
	m := s.p.Receive().Bytes
	q, ok := wire.ParsePrefix2(m)
	if !ok || q.Version != wire.Version2 {
		s.t.Fatalf("the client sends % x", m)
	}
	return q, m
}

// reply2 answers the call xid with success, and permits the client limit messages in all.
func (s *script) reply2(xid, limit uint32) {
	s.t.Helper()
	s.sendRaw(permits(message2(wire.TypeReplyInline, xid, nil, success(xid)), limit))
}

// permits sets the credits of a message, and returns it.
func permits(m []byte, limit uint32) []byte {
	q, _ := wire.ParsePrefix2(m)
	q.Limit = limit
	q.Put(m)
	return m
}

// accepts2 is the answer of a server that accepts version 2, and permits the client limit messages in all.
func accepts2(limit uint32) []byte {
	return permits(properties2(9, wire.DefaultProperties()), limit)
}
