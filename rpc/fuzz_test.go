package rpc_test

import (
	"errors"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// FuzzAdmit checks that for any bytes of a peer each call ends exactly once, and that the reply is
// well-formed and has the call's XID.
func FuzzAdmit(f *testing.F) {
	cred, err := rpc.AuthSysCred(1, "box", 0, 0, []uint32{1, 2})
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte{}, uint32(0), uint32(0), 0)
	f.Add(rpctest.Message(1, rpctest.NULL, nil), uint32(0), uint32(0), 1024)
	f.Add(rpctest.Message(1, rpctest.ECHO, bump("hello")), uint32(0), uint32(0), 1024)
	f.Add(rpctest.Message(1, rpctest.PAIR, u32(1, 1, 9)), uint32(0), uint32(0), 1024)
	f.Add(rpctest.Message(1, rpctest.FAIL, u32(2, 0)), uint32(0), uint32(0), 100)
	// This call asks for results of 16 GiB.
	f.Add(rpctest.Message(1, rpctest.SPILL, u32(1<<32-1)), uint32(0), uint32(0), 100)
	f.Add(rpctest.CallMessage(rpc.CallHeader{XID: 5, Program: rpctest.Number, Version: 3, Procedure: rpctest.BUMP, Cred: cred},
		bump("x")), uint32(0), uint32(0), 100)
	put, at := putMessage(1, "name", 500)
	f.Add(put, at, uint32(500), 2048)
	f.Fuzz(func(t *testing.T, m []byte, position, length uint32, inline int) {
		if len(m) >= 24 && (m[23] == rpctest.STALL || m[23] == rpctest.HOLD) {
			return // the call would wait for ever, because the test does not call Release
		}
		s, p, conn := newServer(t, rpc.Config{})
		c := rpctest.NewCall(conn, m)
		c.Space = rpc.Room{Inline: max(64, inline&0xffff)}
		if length > 0 {
			c.Placed = []rpc.Placed{{Position: position, Length: length}}
		}
		plan, ok := s.Admit(&c.Call)
		if ok {
			if plan.Reply > 1<<20 || plan.Results > 2<<20 || length > 2<<20 {
				t.Fatalf("%d bytes asked for %+v", len(m), plan)
			}
			if length > 0 {
				c.Excised = []xdr.Excised{{Position: position, Data: make([]byte, length)}}
			}
			s.Serve(&c.Call)
		}
		ended(t, c.Done)
		p.Wait()
		if c.End != rpctest.Sent {
			return
		}
		d := xdr.NewDecoder(c.Reply)
		xid, _, err := rpc.ReadReply(d)
		var re *rpc.ReplyError
		if err != nil && !errors.As(err, &re) {
			t.Fatalf("reply %x: %v", c.Reply, err)
		}
		if want, _, _ := rpc.MessageType(m); xid != want {
			t.Fatalf("reply to %#x instead of %#x", xid, want)
		}
		s.Close()
	})
}

// FuzzReply checks that ReadReply either returns an error, or has read a reply in one of the forms
// of RFC 5531 §9.
func FuzzReply(f *testing.F) {
	put := func(fill func(w *xdr.Writer)) {
		w := xdr.NewWriter(make([]byte, 0, 64))
		fill(w)
		f.Add(w.Bytes())
	}
	put(func(w *xdr.Writer) { rpc.PutAccepted(w, 1, rpc.Success); w.Uint32(5) })
	put(func(w *xdr.Writer) { rpc.PutAccepted(w, 1, rpc.AcceptProgMismatch); w.Uint32(3); w.Uint32(4) })
	put(func(w *xdr.Writer) { rpc.PutAuthError(w, 1, rpc.AuthTooWeak) })
	put(func(w *xdr.Writer) { rpc.PutRPCMismatch(w, 1) })
	f.Fuzz(func(t *testing.T, m []byte) {
		d := xdr.NewDecoder(m)
		xid, verf, err := rpc.ReadReply(d)
		var re *rpc.ReplyError
		switch {
		case errors.Is(err, rpc.ErrBadReply):
			return
		case err != nil && !errors.As(err, &re):
			t.Fatalf("an error of no kind: %v", err)
		}
		// Encoding what ReadReply returned gives the same bytes.
		if verf.Flavor != 0 || len(verf.Body) != 0 {
			return
		}
		w := xdr.NewWriter(make([]byte, 0, 64))
		switch {
		case re == nil:
			rpc.PutAccepted(w, xid, rpc.Success)
		case re.Denied && re.Auth != rpc.AuthOK:
			rpc.PutAuthError(w, xid, re.Auth)
		case re.Denied:
			if re.Low != 2 || re.High != 2 {
				return
			}
			rpc.PutRPCMismatch(w, xid)
		case re.Stat == rpc.AcceptProgMismatch:
			rpc.PutAccepted(w, xid, re.Stat)
			w.Uint32(re.Low)
			w.Uint32(re.High)
		default:
			rpc.PutAccepted(w, xid, re.Stat)
		}
		if n := d.Position(); n != w.Len() || string(w.Bytes()) != string(m[:n]) {
			t.Fatalf("read %x, wrote %x", m[:n], w.Bytes())
		}
	})
}
