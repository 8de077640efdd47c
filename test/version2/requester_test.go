package version2

import (
	"context"
	"encoding/binary"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/rawpeer"
	iwarpwire "github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// A requester is a client of the test program that proposes version 2. Its server is the scripted peer.
type requester struct {
	t        *testing.T
	listener *rawpeer.Listener
	peer     peer
	client   *rdma.Client
	dialed   chan error
}

// newRequester connects a client to a scripted peer. The peer has received the client's first message, and has sent
// nothing.
func newRequester(t *testing.T) (r *requester, first []byte) {
	t.Helper()
	return newRequesterWith(t, rdma.DialConfig{})
}

func newRequesterWith(t *testing.T, config rdma.DialConfig) (r *requester, first []byte) {
	t.Helper()
	config.Version2 = true
	device, err := iwarp.New(iwarp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	r = &requester{t: t, listener: rawpeer.Listen(t), dialed: make(chan error, 1)}
	go func() {
		var err error
		r.client, err = rdma.Dial(context.Background(), device, r.listener.Addr(), config)
		r.dialed <- err
	}()
	r.accept()
	return r, r.peer.receive()
}

// accept makes the client's next connection that of the scripted peer.
func (r *requester) accept() {
	r.t.Helper()
	r.peer = peer{r.listener.Accept()}
	r.peer.Respond(rawpeer.Frame{Revision: 2, Enhanced: &iwarpwire.Enhanced{IRD: 16, ORD: 16}})
}

// connected waits until the client has a connection.
func (r *requester) connected() {
	r.t.Helper()
	if err := await.Receive(r.t, "Dial returns", r.dialed); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		r.peer.Conn.Close()
		await.Return(r.t, "Close of the client returns", func() { r.client.Close() })
	})
}

// settle answers the client's first message with properties.
func (r *requester) settle() {
	r.t.Helper()
	r.peer.send(final(0x5e7))
	r.connected()
}

// null begins a NULL call. The channel gets its outcome.
func (r *requester) null() <-chan error {
	done := make(chan error, 1)
	x := rpctest.NewExchange(rpctest.NULL, nil)
	x.Done = func(x *rpc.Exchange) { done <- x.Err }
	r.client.Start(x)
	return done
}

// wantNull receives the message of a NULL call, and returns its XID.
func (r *requester) wantNull() (xid uint32) {
	r.t.Helper()
	got := r.peer.receive()
	var h wire.Call2
	if refusal := h.Parse(got); refusal.Refused() || h.Type != wire.TypeCallInline || h.Version != wire.Version2 {
		r.t.Fatalf("got %x, want an RDMA2_CALL_INLINE", got)
	}
	if refusal := h.JudgeMessage(got[h.Size:]); refusal.Refused() {
		r.t.Fatalf("%s: %x", refusal.Why, got)
	}
	return h.XID
}

// nullReply is the RPC message of a reply to NULL.
func nullReply(xid uint32) []byte { return words(xid, 1, 0, 0, 0, 0) }

func inlineReply(xid uint32) []byte {
	return message(xid, wire.TypeReplyInline, words(0), nullReply(xid))
}

// goesOn fails the test unless a further call succeeds on the connection.
func (r *requester) goesOn() {
	r.t.Helper()
	done := r.null()
	r.peer.send(inlineReply(r.wantNull()))
	if err := await.Receive(r.t, "a call ends", done); err != nil {
		r.t.Errorf("a call afterwards: %v", err)
	}
}

// The first message of a client has version 2 and is neither too long for version 2 nor too short for a responder of
// version 1 (RFC 8166 §4.5). The client sends nothing more before the server has answered. Rows V2-13, V2-14, V2-N6,
// V2-N13 of docs/conformance.md.
func TestFirstMessageOfAClient(t *testing.T) {
	r, first := newRequester(t)
	p, _ := wire.ParsePrefix2(first)
	v := wire.DefaultProperties()
	if len(first) > wire.MaxFirstMessage || len(first) < wire.MinHeader || p.Version != wire.Version2 || p.Type != wire.TypeConnpropFinal || v.Parse(first).Refused() {
		t.Errorf("the first message is %x (V2-14)", first)
	}
	if p.Limit == 0 || int32(p.Limit) < 0 || p.XID == 0 {
		t.Errorf("its prefix is %+v", p)
	}
	r.settle()
	r.goesOn() // goesOn fails if a message of the client had come before
}

// A server that knows version 1 only answers ERR_VERS, with the version of the first message. The client goes on with
// version 1 on the same connection. Rows V2-17, V2-73 of docs/conformance.md.
func TestServerOfVersion1(t *testing.T) {
	r, first := newRequester(t)
	p, _ := wire.ParsePrefix2(first)
	b := make([]byte, wire.MaxErrorSize)
	r.peer.send(b[:wire.ErrorBody{Code: wire.ErrVers, Low: 1, High: 1}.Put(b, wire.Prefix{XID: p.XID, Version: wire.Version2, Credits: 1})])
	r.connected()
	for range 2 {
		done := r.null()
		r.answer1()
		if err := await.Receive(t, "the call ends", done); err != nil {
			t.Error(err)
		}
	}
}

// answer1 receives the call of a NULL, which must have version 1, and answers it. It returns the XID.
func (r *requester) answer1() (xid uint32) {
	r.t.Helper()
	got := r.peer.receive()
	var h wire.Header
	if err := h.Parse(got); err != nil || h.Version != wire.Version1 || h.Proc != wire.ProcMsg {
		r.t.Fatalf("got %x, want a call of version 1 (V2-73, V2-76, V2-79)", got)
	}
	r.peer.send(append(words(h.XID, 1, 2, 0, 0, 0, 0), nullReply(h.XID)...))
	return h.XID
}

// An RDMA2_ERROR ends its call, which fails, and nothing else. Rows V2-90, V2-92, V2-95, V2-99, V2-102, V2-106 of
// docs/conformance.md.
func TestErrorsEndCalls(t *testing.T) {
	for name, body := range map[string]wire.ErrorBody2{
		"BAD_XDR":                 {Code: wire.Err2BadXDR},
		"INVAL_CONT":              {Code: wire.Err2InvalCont},
		"READ_CHUNKS (V2-90)":     {Code: wire.Err2ReadChunks},
		"WRITE_CHUNKS (V2-92)":    {Code: wire.Err2WriteChunks},
		"SEGMENTS (V2-95)":        {Code: wire.Err2Segments},
		"WRITE_RESOURCE (V2-99)":  {Code: wire.Err2WriteResource},
		"REPLY_RESOURCE (V2-102)": {Code: wire.Err2ReplyResource},
		"SYSTEM (V2-106)":         {Code: wire.Err2System},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := newRequester(t)
			r.settle()
			done := r.null()
			b := make([]byte, wire.MaxError2Size)
			r.peer.send(b[:body.Put(b, wire.Prefix2{XID: r.wantNull(), Version: wire.Version2, Limit: limit})])
			if err := await.Receive(t, "the call ends", done); err == nil {
				t.Error("the call succeeds")
			}
			r.goesOn()
		})
	}
}

// The requester drops a message that belongs to no call, and does not answer it. The call under way still ends with its
// own reply. Rows V2-51, V2-66, V2-70 of docs/conformance.md.
func TestWhatLeavesCallsAlone(t *testing.T) {
	for name, m := range map[string]func(xid uint32) []byte{
		"a grant with the call's XID (V2-51)":   func(xid uint32) []byte { return message(xid, wire.TypeGrant) },
		"an error with an unknown code (V2-70)": func(xid uint32) []byte { return message(xid, wire.TypeError, words(57)) },
		"an error without its code (V2-70)":     func(xid uint32) []byte { return message(xid, wire.TypeError) },
		"an error for another call":             func(xid uint32) []byte { return message(xid+1, wire.TypeError, words(2)) },
		"a reply to another call":               func(xid uint32) []byte { return inlineReply(xid + 1) },
		"15 bytes (V2-66)":                      func(xid uint32) []byte { return inlineReply(xid)[:15] },
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := newRequester(t)
			r.settle()
			done := r.null()
			xid := r.wantNull()
			r.peer.send(m(xid))
			r.peer.send(inlineReply(xid))
			if err := await.Receive(t, "the call ends", done); err != nil {
				t.Error(err)
			}
			r.goesOn()
		})
	}
}

// A server breaks the order of messages, or sends what no server may send: the client says so. Rows V2-49, V2-53, V2-71,
// V2-74 of docs/conformance.md.
func TestRequesterRefuses(t *testing.T) {
	versioned := func(version uint32) []byte {
		b := inlineReply(7)
		binary.BigEndian.PutUint32(b[4:], version)
		return b
	}
	for name, c := range map[string]struct {
		message []byte
		version uint32
		body    wire.ErrorBody2
	}{
		"an unknown type (V2-49)":  {message(7, 14), 2, wire.ErrorBody2{Code: wire.Err2InvalHtype}},
		"properties twice (V2-53)": {final(7), 2, wire.ErrorBody2{Code: wire.Err2InvalCont}},
		"version 9 (V2-71)":        {versioned(9), 9, wire.ErrorBody2{Code: wire.Err2Vers, Low: 1, High: 2}},
		"version 1 (V2-74)":        {versioned(1), 1, wire.ErrorBody2{Code: wire.Err2VersMismatch}},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := newRequester(t)
			r.settle()
			r.peer.send(c.message)
			r.peer.wantErrors([]answer{{7, c.version, c.body}})
			r.goesOn()
		})
	}
}

// A client, too, reads no word but the XID of a message whose version it does not know. Row V2-N25 of docs/conformance.md.
func TestRequesterReadsTheVersionFirst(t *testing.T) {
	r, _ := newRequester(t)
	r.settle()
	for _, ht := range types() {
		r.peer.send(ofVersion9(ht))
		r.peer.wantError(7, 9, wire.ErrorBody2{Code: wire.Err2Vers, Low: 1, High: 2})
	}
	r.goesOn()
}
