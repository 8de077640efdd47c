package rpctest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// Suite tests calls over a transport. dial makes a new connection to s, whose only program is p.
// The last test makes s close the connection.
func Suite(t *testing.T, s *rpc.Server, p *Program, dial func(t *testing.T) rpc.Caller) {
	seal := NewSeal()
	s.Protect(FlavorSeal, seal)
	Calls(t, p, dial)
	t.Run("protection", func(t *testing.T) { protection(t, seal, dial(t)) })
	t.Run("endings", func(t *testing.T) { endings(t, p, dial(t)) })
}

// Calls runs the tests of Suite that work under any authentication flavor: the Callers that dial
// returns may protect the calls.
func Calls(t *testing.T, p *Program, dial func(t *testing.T) rpc.Caller) {
	t.Run("sizes", func(t *testing.T) { sizes(t, dial(t)) })
	t.Run("errors", func(t *testing.T) { failures(t, dial(t)) })
	t.Run("out of order", func(t *testing.T) { outOfOrder(t, p, dial(t)) })
	t.Run("compounds that stop and go on", func(t *testing.T) { compounds(t, p, dial(t)) })
	t.Run("a compound that stalls", func(t *testing.T) { stalledCompound(t, p, dial(t)) })
	t.Run("several eligible results", func(t *testing.T) { severalReads(t, dial(t)) })
	t.Run("many at once", func(t *testing.T) { manyAtOnce(t, dial) })
}

// NewExchange returns an Exchange that calls a procedure of the test program. Its limits of size are
// those of the procedure.
func NewExchange(procedure uint32, args func(w *xdr.Writer)) *rpc.Exchange {
	x := &rpc.Exchange{
		Program: Number, Version: LowVersion, Procedure: procedure,
		Args: args, MaxArgs: 64 << 10,
	}
	if procedure < uint32(len(Binding.Procedures)) {
		x.Binding = &Binding.Procedures[procedure]
	}
	switch procedure {
	case ECHO:
		x.MaxResults = 4 + MaxEcho
	case WIDE:
		x.MaxResults = 4 + MaxWide
	case COMPOUND:
		x.MaxArgs = MaxCompound
	default:
		x.MaxResults = 32
	}
	return x
}

// Echo, Put, Get and Wide make one call each and check its results.

// Echo makes an ECHO of n bytes, which are not eligible.
func Echo(k rpc.Caller, n int) error {
	want := Pattern(make([]byte, n))
	return rpc.Do(context.Background(), k, NewExchange(ECHO, func(w *xdr.Writer) { w.Opaque(want) }), same1(want, (*xdr.Decoder).Opaque))
}

// Put makes a PUT of n bytes, which are eligible.
func Put(k rpc.Caller, n int) error {
	data := Pattern(make([]byte, n))
	x := NewExchange(PUT, func(w *xdr.Writer) {
		w.String("a name")
		w.Payload(data, true, nil)
	})
	return rpc.Do(context.Background(), k, x, func(d *xdr.Decoder) error {
		if got, sum := d.Uint32(), d.Uint32(); int(got) != n || sum != crc32.ChecksumIEEE(data) {
			return fmt.Errorf("%d bytes arrived of %d, or other ones", got, n)
		}
		return d.Finish()
	})
}

// Get makes a GET of n bytes, which are eligible. If sink is set, the call has a sink for them.
func Get(k rpc.Caller, n int, sink bool) error {
	want := Pattern(make([]byte, n))
	x := NewExchange(GET, func(w *xdr.Writer) { w.Uint32(uint32(n)) })
	if sink {
		x.Sinks = [][]byte{make([]byte, n)}
		x.Locate = func(d xdr.Decoder) (position, length int) {
			length = int(d.Uint32())
			return d.Position(), length
		}
	} else {
		x.MaxResults = 4 + n + 3
	}
	return rpc.Do(context.Background(), k, x, same1(want, (*xdr.Decoder).EligibleOpaque))
}

// Wide makes a WIDE of n bytes, which are not eligible.
func Wide(k rpc.Caller, n int) error {
	return rpc.Do(context.Background(), k, NewExchange(WIDE, func(w *xdr.Writer) { w.Uint32(uint32(n)) }),
		same1(Pattern(make([]byte, n)), (*xdr.Decoder).Opaque))
}

func same1(want []byte, read func(d *xdr.Decoder, limit uint32) []byte) func(d *xdr.Decoder) error {
	return func(d *xdr.Decoder) error {
		if got := read(d, xdr.NoLimit); d.Err() == nil && !bytes.Equal(got, want) {
			return fmt.Errorf("%d other bytes instead of %d", len(got), len(want))
		}
		return d.Finish()
	}
}

func sizes(t *testing.T, k rpc.Caller) {
	check := func(what string, n int, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s of %d bytes: %v", what, n, err)
		}
	}
	check("NULL", 0, rpc.Do(context.Background(), k, NewExchange(NULL, nil), nil))
	for _, n := range []int{0, 1, 2, 3, 4, 900, 4000, MaxEcho} {
		check("ECHO", n, Echo(k, n))
	}
	for _, n := range []int{0, 1, 5, 4095, 4096, 4097, 32 << 10, 64<<10 + 1, MaxData - 3, MaxData} {
		check("PUT", n, Put(k, n))
		check("GET", n, Get(k, n, false))
		check("GET into a sink", n, Get(k, n, true))
	}
	for _, n := range []int{0, 1000, 8191, MaxWide} {
		check("WIDE", n, Wide(k, n))
	}
	check("LATER", 4, rpc.Do(context.Background(), k, NewExchange(LATER, func(w *xdr.Writer) { w.Uint32(7) }), func(d *xdr.Decoder) error {
		if d.Uint32() != 7 {
			return errors.New("another number")
		}
		return d.Finish()
	}))
}

func failures(t *testing.T, k rpc.Caller) {
	fail := func(stat rpc.AcceptStat, auth rpc.AuthStat) func(w *xdr.Writer) {
		return func(w *xdr.Writer) {
			w.Uint32(uint32(stat))
			w.Uint32(uint32(auth))
		}
	}
	crash := func(how uint32) func(w *xdr.Writer) {
		return func(w *xdr.Writer) { w.Uint32(how) }
	}
	for _, c := range []struct {
		name string
		x    *rpc.Exchange
		want rpc.ReplyError
	}{
		{"unknown procedure", NewExchange(1000, nil), rpc.ReplyError{Stat: rpc.AcceptProcUnavail}},
		{"garbage", NewExchange(BUMP, func(w *xdr.Writer) { w.Uint32(9) }), rpc.ReplyError{Stat: rpc.AcceptGarbageArgs}},
		{"SYSTEM_ERR", NewExchange(FAIL, fail(rpc.AcceptSystemErr, 0)), rpc.ReplyError{Stat: rpc.AcceptSystemErr}},
		{"PROG_MISMATCH", NewExchange(FAIL, fail(rpc.AcceptProgMismatch, 0)),
			rpc.ReplyError{Stat: rpc.AcceptProgMismatch, Low: LowVersion, High: HighVersion}},
		{"a panic", NewExchange(CRASH, crash(CrashAtOnce)), rpc.ReplyError{Stat: rpc.AcceptSystemErr}},
		{"a panic behind a payload", NewExchange(CRASH, crash(CrashWithPayload)), rpc.ReplyError{Stat: rpc.AcceptSystemErr}},
		{"a panic on the executor", NewExchange(CRASH, crash(CrashBlocking)), rpc.ReplyError{Stat: rpc.AcceptSystemErr}},
		{"a panic in Complete", NewExchange(CRASH, crash(CrashCompleting)), rpc.ReplyError{Stat: rpc.AcceptSystemErr}},
		{"AUTH_TOOWEAK", NewExchange(FAIL, fail(0, rpc.AuthTooWeak)), rpc.ReplyError{Denied: true, Auth: rpc.AuthTooWeak}},
	} {
		var re *rpc.ReplyError
		if err := rpc.Do(context.Background(), k, c.x, nil); !errors.As(err, &re) || *re != c.want {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if err := rpc.Do(context.Background(), k, NewExchange(CRASH, crash(CrashPending)), nil); err != nil {
		t.Errorf("a panic of a call that is completed all the same: %v", err)
	}
	if err := Echo(k, 10); err != nil {
		t.Errorf("after failures: %v", err)
	}
}

// freshLane returns the number of a lane that no other call uses.
func (p *Program) freshLane() uint32 { return 0x5717_0000 + uint32(p.fresh.Add(1)) }

func outOfOrder(t *testing.T, p *Program, k rpc.Caller) {
	const calls = 8
	lane := p.freshLane()
	// Make one call first, because a connection may allow only one call until its first reply.
	if err := Echo(k, 1); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, calls)
	for range calls {
		x := NewExchange(STALL, func(w *xdr.Writer) { w.Uint32(lane) })
		x.Done = func(x *rpc.Exchange) { done <- x.Err }
		k.Start(x)
	}
	for range calls {
		<-p.Arrived(lane)
	}
	for range 20 {
		if err := Echo(k, 100); err != nil {
			t.Error(err)
		}
	}
	select {
	case err := <-done:
		t.Errorf("a stalled call ended: %v", err)
	default:
	}
	p.Release(lane)
	for range calls {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func manyAtOnce(t *testing.T, dial func(t *testing.T) rpc.Caller) {
	var wg sync.WaitGroup
	for i := range 3 {
		k := dial(t)
		for j := range 5 {
			wg.Go(func() {
				for n := range 10 {
					size := (i*7919 + j*104729 + n*15485863) % (MaxData / 4)
					for _, err := range []error{Put(k, size), Get(k, size, n%2 == 0), Echo(k, size%MaxEcho), Wide(k, size%MaxWide)} {
						if err != nil {
							t.Errorf("%d bytes: %v", size, err)
							return
						}
					}
				}
			})
		}
	}
	wg.Wait()
}
