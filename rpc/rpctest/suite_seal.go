package rpctest

import (
	"bytes"
	"context"
	"errors"
	"hash/crc32"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// sealed returns a call of the test program under FlavorSeal.
func sealed(procedure, service, key uint32, args func(w *xdr.Writer)) *rpc.Exchange {
	x := NewExchange(procedure, args)
	h := rpc.CallHeader{Program: x.Program, Version: x.Version, Procedure: x.Procedure}
	x.Cred = SealCred(h, service, key)
	if service == SealWrap {
		// No item may travel outside the message, and the protection makes the results longer.
		x.Binding = nil
		x.Args = SealArgs(args, key)
		x.MaxArgs += MaxData + 64
		x.MaxResults += 64
	}
	return x
}

// protection tests that the transport works with a flavor that makes contexts, verifies headers,
// unwraps arguments and wraps results.
func protection(t *testing.T, s *Seal, k rpc.Caller) {
	do := func(x *rpc.Exchange, decode func(d *xdr.Decoder) error) error {
		return rpc.Do(context.Background(), k, x, decode)
	}
	var key uint32
	fresh := sealed(ECHO, SealNew, 0, nil)
	fresh.Binding, fresh.MaxResults = nil, 64
	if err := do(fresh, func(d *xdr.Decoder) error {
		key = d.Uint32()
		return d.Finish()
	}); err != nil || key < firstKey {
		t.Fatalf("a context: key %d, %v", key, err)
	}

	// Under SealNone, arguments and results are sent as under AUTH_NONE.
	for _, n := range []int{0, 1000, 200_000} {
		want := Pattern(make([]byte, n))
		x := sealed(GET, SealNone, key, func(w *xdr.Writer) { w.Uint32(uint32(n)) })
		x.Sinks = [][]byte{make([]byte, n)}
		x.Locate = func(d xdr.Decoder) (int, int) { n := int(d.Uint32()); return d.Position(), n }
		if err := do(x, same1(want, (*xdr.Decoder).EligibleOpaque)); err != nil {
			t.Errorf("GET of %d bytes, header verified: %v", n, err)
		}
	}

	// Test short calls, and calls that are longer than one message, under SealWrap.
	wrapped := s.Wrapped.Load()
	for _, n := range []int{0, 1, 700, 3000, MaxEcho} {
		want := Pattern(make([]byte, n))
		x := sealed(ECHO, SealWrap, key, func(w *xdr.Writer) { w.Opaque(want) })
		err := do(x, func(d *xdr.Decoder) error {
			plain, ok := Unseal(d, key, 0, 0)
			if !ok {
				return errors.New("the protection does not come off")
			}
			if !bytes.Equal(plain.Opaque(MaxEcho), want) {
				return errors.New("other bytes")
			}
			return plain.Finish()
		})
		if err != nil {
			t.Errorf("ECHO of %d bytes, wrapped: %v", n, err)
		}
	}
	for _, n := range []int{5, 4000, 100_001, MaxData - 1} {
		data := Pattern(make([]byte, n))
		x := sealed(PUT, SealWrap, key, func(w *xdr.Writer) {
			w.String("name")
			w.Payload(data, true, nil)
		})
		for range 2 { // the second call has another XID
			err := do(x, func(d *xdr.Decoder) error {
				plain, ok := Unseal(d, key, 0, 0)
				if !ok || int(plain.Uint32()) != n || plain.Uint32() != crc32.ChecksumIEEE(data) {
					return errors.New("other bytes arrived")
				}
				return plain.Finish()
			})
			if err != nil {
				t.Errorf("PUT of %d bytes, wrapped: %v", n, err)
			}
		}
		x = sealed(GET, SealWrap, key, func(w *xdr.Writer) { w.Uint32(uint32(n)) })
		x.MaxResults = 64 + n
		err := do(x, func(d *xdr.Decoder) error {
			plain, ok := Unseal(d, key, 4, n)
			if !ok || !bytes.Equal(plain.Opaque(MaxData), data) {
				return errors.New("the protection does not come off")
			}
			return plain.Finish()
		})
		if err != nil {
			t.Errorf("GET of %d bytes, wrapped: %v", n, err)
		}
	}
	if s.Wrapped.Load() == wrapped {
		t.Error("no results were wrapped")
	}

	// The server refuses these calls.
	denied := func(why rpc.AuthStat) rpc.ReplyError { return rpc.ReplyError{Denied: true, Auth: why} }
	broken := func(x *rpc.Exchange, args func(w *xdr.Writer)) *rpc.Exchange {
		x.Args = args
		return x
	}
	echo := func(w *xdr.Writer) { w.Opaque(make([]byte, 9)) }
	forged := sealed(ECHO, SealNone, key, echo)
	forged.Cred.Body[11] ^= 1
	for _, c := range []struct {
		name string
		x    *rpc.Exchange
		want rpc.ReplyError
	}{
		{"an unknown key", sealed(ECHO, SealNone, KeyUnknown, echo), denied(rpc.AuthRejectedCred)},
		{"a forged header", forged, denied(rpc.AuthBadVerf)},
		{"plain arguments where wrapped ones belong", broken(sealed(ECHO, SealWrap, key, echo), echo), rpc.ReplyError{Stat: rpc.AcceptGarbageArgs}},
		{"arguments under another key", broken(sealed(ECHO, SealWrap, key, echo), SealArgs(echo, key+1)), rpc.ReplyError{Stat: rpc.AcceptGarbageArgs}},
		{"no arguments", broken(sealed(ECHO, SealWrap, key, echo), nil), rpc.ReplyError{Stat: rpc.AcceptGarbageArgs}},
		{"results that cannot be protected", sealed(ECHO, SealWrap, KeyBare, echo), rpc.ReplyError{Stat: rpc.AcceptSystemErr}},
		{"a procedure that is not there", sealed(1000, SealNone, key, echo), rpc.ReplyError{Stat: rpc.AcceptProcUnavail}},
	} {
		var re *rpc.ReplyError
		if err := do(c.x, nil); !errors.As(err, &re) || *re != c.want {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if n := s.Guards.Load(); n != 0 {
		t.Errorf("%d guards were not released", n)
	}
}

// endings tests that a call that the flavor drops gets no reply. If the flavor also closes the
// connection, the functions passed to OnClose run.
func endings(t *testing.T, p *Program, k rpc.Caller) {
	null := func() {
		t.Helper()
		if err := rpc.Do(context.Background(), k, NewExchange(NULL, nil), nil); err != nil {
			t.Fatal(err)
		}
	}
	null()
	conn := p.Conn.Load()
	gone, forgotten := make(chan struct{}), false
	conn.OnClose(func() { close(gone) })
	conn.OnClose(func() { forgotten = true })()

	start := func(key uint32) (x *rpc.Exchange, done chan struct{}) {
		x = sealed(ECHO, SealNone, key, func(w *xdr.Writer) { w.Opaque(nil) })
		done = make(chan struct{})
		x.Done = func(*rpc.Exchange) { close(done) }
		k.Start(x)
		return x, done
	}
	dropped, done := start(KeyDrop)
	null()
	select {
	case <-done:
		t.Error("a call that was dropped has an answer")
	case <-gone:
		t.Error("a call that was dropped ended its connection")
	default:
	}
	k.Cancel(dropped, errors.New("enough"))
	<-done

	last, done := start(KeyEnd)
	<-gone
	k.Cancel(last, errors.New("enough"))
	<-done
	if forgotten {
		t.Error("a connection's end was told to a function that was taken back")
	}
	late := false
	conn.OnClose(func() { late = true })
	if !late {
		t.Error("a connection's end is not told afterwards")
	}
	if conn.Caller() != nil {
		t.Error("a connection that is gone can be called on")
	}
}
