package gss_test

import (
	"context"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// Offsets of the parts of a call and a reply under the test mechanism, in bytes. A credential of 36
// bytes and a checksum of 30 make a call header of 108.
const (
	callHeader  = 24 + 8 + 36 + 8 + 32
	verifierPad = callHeader - 2
	replyHeader = 12 + 8 + 32 + 4
)

// unread reports whether a change of byte at of a protected message has no effect, because the byte
// is padding that no code reads, or because the service does not protect it. header is the length
// of the message's header.
func unread(at, header, length int, service rpc.GSSService) bool {
	switch {
	case service == rpc.GSSNone:
		return at >= header
	case service == rpc.GSSIntegrity:
		return at >= length-2 // the padding after the checksum of 30 bytes
	}
	return at >= length-3 // the padding after the token of odd length
}

// protectedBump returns the message of a BUMP under the context and the given service.
func (r *raw) protectedBump(seq uint32, service rpc.GSSService) []byte {
	args := tag
	switch service {
	case rpc.GSSIntegrity:
		args = signed(r.ctx, seq, tag)
	case rpc.GSSPrivacy:
		args = sealed(r.ctx, seq, tag)
	}
	h := r.data(seq, uint32(service))
	var m []byte
	probe := &wire{s: r.s, conn: r.conn, write: func(b []byte) { m = b }}
	probe.xid.Store(r.xid.Add(1))
	probe.call(r.ctx, h, put(args))
	return m
}

// If any bit of a call is changed in transit, the call is refused or dropped, not executed, and the
// context stays usable.
func TestEveryBitOfACallIsProtected(t *testing.T) {
	for name, service := range services {
		s := newSite(t, gss.Config{})
		r := s.establish(s.wire(), s.mech)
		seq, flips := uint32(1), 0
		for at, length := 0, len(r.protectedBump(seq, service)); at < length; at++ {
			if at >= verifierPad && at < callHeader || unread(at, callHeader, length, service) {
				continue
			}
			for bit := range 8 {
				seq++
				m := r.protectedBump(seq, service)
				m[at] ^= 1 << bit
				if c := r.serve(m); answer(c) == nil {
					t.Fatalf("%s: byte %d, bit %d: the call was answered", name, at, bit)
				}
				flips++
			}
		}
		if n := s.program.Served[rpctest.BUMP].Load(); n != 0 || flips < 500 {
			t.Errorf("%s: %d of %d calls were executed", name, n, flips)
		}
		if n := s.rpc.Stats().Panics; n != 0 {
			t.Errorf("%s: %d panics", name, n)
		}
		if err := answer(r.serve(r.protectedBump(seq+1, service))); err != nil {
			t.Errorf("%s: the call as it is: %v", name, err)
		}
	}
}

// If any bit of a reply is changed in transit, the client does not accept the reply.
func TestEveryBitOfAReplyIsProtected(t *testing.T) {
	for name, service := range services {
		s := newSite(t, gss.Config{})
		w := s.wire()
		k := s.client(w, service)
		length := 0
		w.back = func(m []byte) []byte { length = len(m); return m }
		if _, err := bump(k); err != nil {
			t.Fatal(err)
		}
		// Skip the XID, because the transport checks it.
		for at := 4; at < length; at++ {
			if at >= replyHeader-6 && at < replyHeader-4 || unread(at, replyHeader, length, service) {
				continue
			}
			for bit := range 8 {
				w.back = func(m []byte) []byte {
					// Change only replies of the expected length. A denial is shorter and not
					// signed: if it were changed, the client could give up the context.
					if len(m) > at && len(m) == length {
						m[at] ^= 1 << bit
					}
					return m
				}
				if _, err := bump(k); err == nil {
					t.Fatalf("%s: byte %d, bit %d: the results were taken", name, at, bit)
				}
			}
		}
		w.back = nil
	}
}

// If one bit in the payload of a large call is changed, the call is refused.
func TestLargePayloadIsProtected(t *testing.T) {
	for name, service := range services {
		if service == rpc.GSSNone {
			continue
		}
		s := newSite(t, gss.Config{})
		w := s.wire()
		k := s.client(w, service)
		const size = 300_001
		for _, at := range []int{callHeader + 60, size / 2, size} {
			w.change = func(m []byte) []byte { m[at] ^= 4; return m }
			x := rpctest.NewExchange(rpctest.PUT, func(w *xdr.Writer) {
				w.String("a name")
				w.Payload(make([]byte, size), true, nil)
			})
			if err := rpc.Do(context.Background(), k, x, nil); stat(err) != rpc.AcceptGarbageArgs {
				t.Errorf("%s, byte %d: %v", name, at, err)
			}
		}
		w.change = nil
		if n := s.program.Served[rpctest.PUT].Load(); n != 0 {
			t.Errorf("%s: %d were executed", name, n)
		}
	}
}
