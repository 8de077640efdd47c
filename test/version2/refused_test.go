package version2

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	iwarpwire "github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// refuse answers a message of version 2 with an RDMA2_ERROR.
func (p peer) refuse(xid uint32, code wire.ErrorCode2) {
	p.T.Helper()
	b := make([]byte, wire.MaxError2Size)
	body := wire.ErrorBody2{Code: code, Low: wire.Version1, High: wire.Version1}
	p.send(b[:body.Put(b, wire.Prefix2{XID: xid, Version: wire.Version2, Limit: limit})])
}

// wantNoMessage reads until the other side ends the connection. The test fails if a message comes before that.
func (p peer) wantNoMessage() {
	p.T.Helper()
	for {
		head := make([]byte, iwarpwire.LengthSize)
		if _, err := io.ReadFull(p.Conn, head); err != nil {
			if timeout, ok := err.(interface{ Timeout() bool }); ok && timeout.Timeout() {
				p.T.Fatal("the connection does not end")
			}
			return
		}
		rest := p.ReadBytes(iwarpwire.FPDUSize(iwarpwire.ULPDULength(head)) - iwarpwire.LengthSize)
		if op := iwarpwire.ParseControl(rest).Op; op == iwarpwire.Send || op == iwarpwire.SendInvalidate {
			p.T.Fatalf("a message follows: %x (V2-76, V2-79)", rest)
		}
	}
}

// A server refuses the version of a connection whose version is settled. The client sends nothing of that version there
// any more: it ends the connection. Its calls go out on the next one, with version 1. Row V2-76 of docs/conformance.md.
func TestVersionIsNotSentAgain(t *testing.T) {
	r, _ := newRequesterWith(t, rdma.DialConfig{Reconnect: true})
	r.settle()
	var all []<-chan error
	var xids []uint32
	for range 2 {
		all = append(all, r.null())
		xids = append(xids, r.wantNull())
	}
	r.peer.refuse(xids[0], wire.Err2VersMismatch)
	r.peer.wantNoMessage()
	r.accept()
	for _, done := range all {
		if xid := r.answer1(); !slices.Contains(xids, xid) {
			t.Errorf("XID %#x, want one of %#x", xid, xids)
		}
		if err := await.Receive(t, "the call ends", done); err != nil {
			t.Error(err)
		}
	}
	if i, _ := r.client.Info(); i.Version != 1 {
		t.Errorf("version %d", i.Version)
	}
}

// A server refuses the version that the client proposes, although it knows it. The client connects again, with version 1.
// Row V2-76 of docs/conformance.md.
func TestProposalThatMismatches(t *testing.T) {
	r, first := newRequester(t)
	p, _ := wire.ParsePrefix2(first)
	r.peer.refuse(p.XID, wire.Err2VersMismatch)
	r.peer.wantNoMessage()
	r.accept()
	r.connected()
	done := r.null()
	r.answer1()
	if err := await.Receive(t, "the call ends", done); err != nil {
		t.Error(err)
	}
}

// A server refuses the header type of a call, or the version for good. The call fails, and the client sends no such message
// on the connection any more: it ends the connection, and its later calls have version 1. Rows V2-73 and V2-79 of
// docs/conformance.md.
func TestHeaderTypeIsNotSentAgain(t *testing.T) {
	for name, c := range map[string]struct {
		length int
		ht     wire.HeaderType
		code   wire.ErrorCode2
	}{
		"a call in one message":        {100, wire.TypeCallInline, wire.Err2InvalHtype},
		"a call in parts":              {6000, wire.TypeCallMiddle, wire.Err2InvalHtype},
		"a call in a Call chunk":       {rpctest.MaxEcho, wire.TypeCallExternal, wire.Err2InvalHtype},
		"a call of an unknown version": {100, wire.TypeCallInline, wire.Err2Vers},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := newRequesterWith(t, rdma.DialConfig{Reconnect: true})
			r.settle()
			done := make(chan error, 1)
			go func() { done <- rpctest.Echo(r.client, c.length) }()
			got := r.peer.receive()
			p, _ := wire.ParsePrefix2(got)
			if p.Type != c.ht {
				t.Fatalf("got %x, want %v", got, c.ht)
			}
			for q := p; q.Type == wire.TypeCallMiddle; { // the parts are under way before the error comes
				q, _ = wire.ParsePrefix2(r.peer.receive())
			}
			r.peer.refuse(p.XID, c.code)
			err := await.Receive(t, "the call ends", done)
			if refused, ok := errors.AsType[*rdma.Refused2Error](err); !ok || refused.Code != c.code {
				t.Errorf("the call ends with %v", err)
			}
			next := r.null()
			r.peer.wantNoMessage()
			r.accept()
			r.answer1()
			if err := await.Receive(t, "the next call ends", next); err != nil {
				t.Error(err)
			}
		})
	}
}

// A server refuses the grants of the client, which have XID 0: the client sends none any more, nor anything else on that
// connection. Row V2-79 of docs/conformance.md.
func TestGrantIsNotSentAgain(t *testing.T) {
	r, _ := newRequesterWith(t, rdma.DialConfig{Reconnect: true})
	r.settle()
	r.peer.refuse(0, wire.Err2InvalHtype)
	r.peer.wantNoMessage()
	done := r.null()
	r.accept()
	r.answer1()
	if err := await.Receive(t, "the call ends", done); err != nil {
		t.Error(err)
	}
}

// Without Reconnect the calls fail, with an error that names the reason.
func TestRefusedVersionWithoutReconnect(t *testing.T) {
	r, _ := newRequester(t)
	r.settle()
	done := r.null()
	r.peer.refuse(r.wantNull(), wire.Err2VersMismatch)
	err := await.Receive(t, "the call ends", done)
	const want = "the peer refuses version 2 of RPC-over-RDMA on this connection"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}
