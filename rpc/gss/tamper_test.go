package gss_test

import (
	"context"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// Where the parts of a call under the toy mechanism lie, in bytes: a credential of 36
// bytes and a checksum of 30 make a header of 108.
const (
	callHeader  = 24 + 8 + 36 + 8 + 32
	verifierPad = callHeader - 2
	replyHeader = 12 + 8 + 32 + 4
)

// unread says whether a byte of a protected message is padding that nothing reads, or
// is not protected because that was not asked for.
func unread(at, header, length int, service rpc.GSSService) bool {
	switch {
	case service == rpc.GSSNone:
		return at >= header
	case service == rpc.GSSIntegrity:
		return at >= length-2 // behind the checksum of 30 bytes
	}
	return at >= length-3 // behind the token of a length that is odd
}

// protectedBump is a BUMP of the context under a service.
func (r *raw) protectedBump(seq uint32, service rpc.GSSService) []byte {
	args := tag
	switch service {
	case rpc.GSSIntegrity:
		args = signed(r.ctx, seq, tag)
	case rpc.GSSPrivacy:
		args = sealed(r.ctx, seq, tag, false)
	}
	h := r.data(seq, uint32(service))
	var m []byte
	probe := &wire{s: r.s, conn: r.conn, write: func(b []byte) { m = b }}
	probe.xid.Store(r.xid.Add(1))
	probe.call(r.ctx, h, put(args))
	return m
}

// A bit that was changed anywhere on the way there has the call refused or dropped,
// never executed, and does no harm to the context.
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

// A bit that was changed on the way back is noticed: no result is taken for the
// server's that is not.
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
		// The XID is the transport's.
		for at := 4; at < length; at++ {
			if at >= replyHeader-6 && at < replyHeader-4 || unread(at, replyHeader, length, service) {
				continue
			}
			for bit := range 8 {
				w.back = func(m []byte) []byte {
					// The context is to stay: a denial cannot be signed.
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

// The payload of a large call is protected as well: one bit of it is enough.
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
