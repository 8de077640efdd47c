package rdmatest

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

var exposureRules = []rule{
	{"AccessOutOfBoundsEndsTheConnection", exposureBounds},
	{"AccessWithoutTheRightEndsTheConnection", exposureRights},
	{"StaleSTag", exposureStale},
	{"STagOfAnotherConnection", exposureForeign},
	{"STagsAreUnpredictable", exposureUnpredictable},
	{"LimitsAreKnownBeforehand", both(exposureLimits)},
	{"WithoutRemoteInvalidation", both(exposureNoInvalidation)},
	{"RemoteInvalidation", both(exposureInvalidate)},
	{"InvalidateOfUnknownSTagEndsTheConnection", both(exposureInvalidateUnknown)},
	{"InvalidateOfLongRevokedSTagIsAllowed", both(exposureInvalidateLate)},
	{"InvalidatedMemoryIsOutOfReach", both(exposureInvalidated)},
	{"DeregisterTwice", both(exposureDeregisterTwice)},
	{"DeregisterDuringWrites", both(exposureDeregisterWrites)},
	{"DeregisterDuringReads", both(exposureDeregisterReads)},
	{"EndRevokesExposure", exposureEnd},
}

// access posts one Write or Read of a new region over a new connection, and asserts that the
// peer refuses it. The function at returns the memory that the work names.
func (s *suite) access(op rdmacm.Op, granted rdmacm.Access, memory []byte, at func(rdmacm.Region) rdmacm.Remote, n int) {
	a, b := s.pair(common(), common())
	region := b.Expose(memory, granted)
	before := slices.Clone(memory)
	local := bytes.Repeat([]byte{0x5a}, n)
	w := rdmacm.Work{Op: op, Local: [][]byte{local}, Remote: at(region)}
	// A refused Write may still complete without an error, but a Read cannot.
	if o := a.Do(w); op == rdmacm.OpRead && o.Err == nil {
		if granted&rdmacm.RemoteRead == 0 && s.lacks(a, rdmacm.ReadsNeedNoRight) {
			s.noError(region.Deregister())
			return
		}
		s.Error("the Read succeeds")
	}
	s.refused(a, op, w.Remote.STag)
	s.killedUnless(rdmacm.FaultLooksOrderly, b)
	if op == rdmacm.OpRead && !bytes.Equal(local, bytes.Repeat([]byte{0x5a}, n)) {
		s.Error("the Read brings something")
	}
	s.same("memory", memory, before)
	s.noError(region.Deregister())
}

func exposureBounds(s *suite) {
	const size = 10_000
	for _, op := range []rdmacm.Op{rdmacm.OpWrite, rdmacm.OpRead} {
		for _, c := range []struct {
			name string
			at   int
			n    int
		}{
			{"oneBeyond", 1, size},
			{"oneLonger", 0, size + 1},
			{"justBelow", -1, 1},
			{"straddlesTheStart", -1, 2},
			{"justAbove", size, 1},
			{"farAbove", 1 << 30, 1},
			{"wraps", math.MinInt / 2, 100},
		} {
			s.Run(fmt.Sprintf("%v/%s", op, c.name), func(t *testing.T) {
				s := &suite{T: t, Options: s.Options, provider: s.provider}
				s.access(op, rdmacm.RemoteRead|rdmacm.RemoteWrite, pattern(1, size),
					func(r rdmacm.Region) rdmacm.Remote { return At(r, c.at) }, c.n)
			})
		}
		s.Run(fmt.Sprintf("%v/endOfTheAddresses", op), func(t *testing.T) {
			s := &suite{T: t, Options: s.Options, provider: s.provider}
			s.access(op, rdmacm.RemoteRead|rdmacm.RemoteWrite, pattern(1, size),
				func(r rdmacm.Region) rdmacm.Remote {
					return rdmacm.Remote{STag: r.STag(), Offset: 1<<64 - 50}
				}, 100)
		})
	}
}

func exposureRights(s *suite) {
	for op, granted := range map[rdmacm.Op]rdmacm.Access{
		rdmacm.OpWrite: rdmacm.RemoteRead,
		rdmacm.OpRead:  rdmacm.RemoteWrite,
	} {
		s.Run(op.String(), func(t *testing.T) {
			s := &suite{T: t, Options: s.Options, provider: s.provider}
			s.access(op, granted, pattern(1, 100), func(r rdmacm.Region) rdmacm.Remote { return At(r, 0) }, 10)
		})
	}
}

func exposureStale(s *suite) {
	for _, op := range []rdmacm.Op{rdmacm.OpWrite, rdmacm.OpRead} {
		for _, c := range []struct {
			name string
			at   func(r rdmacm.Region) rdmacm.Remote
		}{
			{"deregistered", func(r rdmacm.Region) rdmacm.Remote {
				if err := r.Deregister(); err != nil {
					s.Error(err)
				}
				return At(r, 0)
			}},
			{"otherKeyByte", func(r rdmacm.Region) rdmacm.Remote {
				return rdmacm.Remote{STag: r.STag() ^ 1, Offset: r.Offset()}
			}},
			{"otherIndex", func(r rdmacm.Region) rdmacm.Remote {
				return rdmacm.Remote{STag: r.STag() ^ 1<<31, Offset: r.Offset()}
			}},
			{"zero", func(r rdmacm.Region) rdmacm.Remote { return rdmacm.Remote{Offset: r.Offset()} }},
		} {
			s.Run(fmt.Sprintf("%v/%s", op, c.name), func(t *testing.T) {
				s := &suite{T: t, Options: s.Options, provider: s.provider}
				s.access(op, rdmacm.RemoteRead|rdmacm.RemoteWrite, pattern(1, 100), c.at, 10)
			})
		}
	}
}

// If a peer uses another connection's STag, its own connection ends, and no other (conformance
// rows V1-3, V1-4, V2-109).
func exposureForeign(s *suite) {
	for _, op := range []rdmacm.Op{rdmacm.OpWrite, rdmacm.OpRead} {
		s.Run(op.String(), func(t *testing.T) {
			s := &suite{T: t, Options: s.Options, provider: s.provider}
			a1, b1 := s.pair(common(), common())
			a2, b2 := s.pair(common(), common())
			memory := pattern(1, 100)
			region := b1.Expose(memory, rdmacm.RemoteRead|rdmacm.RemoteWrite)
			a2.Post(rdmacm.Work{Op: op, Local: [][]byte{make([]byte, 10)}, Remote: At(region, 0)})
			s.killedUnless(rdmacm.FaultIsNotNamed, a2)
			s.killedUnless(rdmacm.FaultLooksOrderly, b2)
			s.lives(a1, b1)
			s.same("memory", memory, pattern(1, 100))
			got, err := a1.Read(At(region, 0), 100)
			s.noError(err)
			s.same("bytes read", got, memory)
		})
	}
	if s.limits().RemoteInvalidation {
		s.Run("Invalidate", func(t *testing.T) {
			s := &suite{T: t, Options: s.Options, provider: s.provider}
			a1, b1 := s.pair(common(), common())
			a2, b2 := s.pair(common(), common())
			memory := pattern(1, 100)
			region := b1.Expose(memory, rdmacm.RemoteRead)
			a2.Post(rdmacm.Work{Op: rdmacm.OpSendInvalidate, Invalidate: region.STag()})
			s.killed(a2, b2)
			got, err := a1.Read(At(region, 0), 100)
			s.noError(err)
			s.same("bytes read", got, memory)
		})
	}
}

func (s *suite) limits() rdmacm.Limits {
	a, _ := s.pair(common(), common())
	return a.Conn().Limits()
}

// STags form no arithmetic progression, are not reused soon, and are never 0 (conformance row
// V1-6).
func exposureUnpredictable(s *suite) {
	const n = 1000
	a, _ := s.pair(common(), common())
	seen := make(map[uint32]bool)
	steps := make(map[uint32]int)
	var last uint32
	for range n {
		r := a.Expose(make([]byte, 16), rdmacm.RemoteRead)
		stag := r.STag()
		s.noError(r.Deregister())
		if stag == 0 {
			s.Fatal("an STag of 0")
		}
		if seen[stag] {
			s.Fatalf("STag %#x is used again within %d registrations", stag, n)
		}
		seen[stag] = true
		steps[stag-last]++
		last = stag
	}
	for step, times := range steps {
		if times > 5 && !s.lacks(a, rdmacm.GuessableSTags) {
			s.Fatalf("%d of %d STags are the one before plus %#x", times, n, step)
		}
	}
}

// The limits of a connection are known before the connection exists (conformance rows V1-120,
// V1-121).
func exposureLimits(s *suite, a, b *Peer) {
	for _, l := range []rdmacm.Limits{s.provider.Limits(), s.listen().Limits()} {
		for _, c := range []rdmacm.Limits{a.Conn().Limits(), b.Conn().Limits()} {
			if c.RemoteInvalidation != l.RemoteInvalidation || c.MaxSend < l.MaxSend || c.MaxLocal < l.MaxLocal {
				s.Fatalf("a connection has %+v where %+v was said", c, l)
			}
		}
	}
}

func exposureNoInvalidation(s *suite, a, b *Peer) {
	if a.Conn().Limits().RemoteInvalidation {
		s.Skip("the provider has remote invalidation")
	}
	memory := pattern(1, 100)
	region := b.Expose(memory, rdmacm.RemoteRead|rdmacm.RemoteWrite)
	work := []rdmacm.Work{
		WriteOf(At(region, 0), make([]byte, 100)),
		{Op: rdmacm.OpSendInvalidate, Local: [][]byte{[]byte("bye")}, Invalidate: region.STag()},
	}
	if o := a.Do(work...); o.Err == nil || o.Failed != 1 {
		s.Fatalf("the chain comes back with %v, index %d", o.Err, o.Failed)
	}
	got, err := a.Read(At(region, 0), 100)
	s.noError(err)
	s.same("memory, which stays as it was", got, memory)
	s.lives(a, b)
}

func exposureInvalidate(s *suite, a, b *Peer) {
	if !a.Conn().Limits().RemoteInvalidation {
		s.Skip("the provider has no remote invalidation")
	}
	region := b.Expose(make([]byte, 100), rdmacm.RemoteWrite)
	other := b.Expose(make([]byte, 100), rdmacm.RemoteWrite)
	s.noError(a.Send([]byte("plain")))
	if m := b.Receive(); m.Invalidated != 0 {
		s.Fatalf("a plain Send invalidates %#x", m.Invalidated)
	}
	s.noError(a.SendInvalidate([]byte("bye"), region.STag()))
	m := b.Receive()
	if m.Invalidated != region.STag() {
		s.Fatalf("Invalidated is %#x, want %#x", m.Invalidated, region.STag())
	}
	s.same("message", m.Bytes, []byte("bye"))
	s.noError(region.Deregister())
	// The other region stays exposed.
	s.noError(a.Write(At(other, 0), pattern(1, 100)))
	s.lives(a, b)
	s.noError(other.Deregister())
}

// refused asserts that the connection of p ended because the peer refused an operation on stag.
func (s *suite) refused(p *Peer, op rdmacm.Op, stag uint32) {
	s.Helper()
	err := p.End()
	e, ok := errors.AsType[*rdmacm.RefusedError](err)
	named := ok && *e == rdmacm.RefusedError{Op: op, STag: stag} && errors.Is(err, rdmacm.ErrNotExposed)
	if !named && !s.lacks(p, rdmacm.FaultIsNotNamed) {
		s.Errorf("the connection ends with %v, which does not say that a %v to STag %#x is refused", err, op, stag)
	}
}

func exposureInvalidateUnknown(s *suite, a, b *Peer) {
	if !a.Conn().Limits().RemoteInvalidation {
		s.Skip("the provider has no remote invalidation")
	}
	region := b.Expose(make([]byte, 100), rdmacm.RemoteWrite)
	a.Post(rdmacm.Work{Op: rdmacm.OpSendInvalidate, Invalidate: region.STag() ^ 0x100})
	s.refused(a, rdmacm.OpSendInvalidate, region.STag()^0x100)
	s.killed(b)
}

// A Send may invalidate an STag long after its owner has deregistered it and exposed other
// memory.
func exposureInvalidateLate(s *suite, a, b *Peer) {
	if !a.Conn().Limits().RemoteInvalidation {
		s.Skip("the provider has no remote invalidation")
	}
	late := b.Expose(make([]byte, 100), rdmacm.RemoteWrite)
	s.noError(late.Deregister())
	for range 1000 {
		s.noError(b.Expose(make([]byte, 100), rdmacm.RemoteWrite).Deregister())
	}
	s.noError(a.SendInvalidate(nil, late.STag()))
	if m := b.Receive(); m.Invalidated != late.STag() {
		s.Errorf("the message invalidates %#x, not %#x", m.Invalidated, late.STag())
	}
	s.lives(a, b)
}

func exposureInvalidated(s *suite, a, b *Peer) {
	if !a.Conn().Limits().RemoteInvalidation {
		s.Skip("the provider has no remote invalidation")
	}
	memory := make([]byte, 100)
	region := b.Expose(memory, rdmacm.RemoteWrite)
	s.noError(a.SendInvalidate(nil, region.STag()))
	b.Receive()
	a.Post(WriteOf(At(region, 0), pattern(1, 100)))
	s.killed(a, b)
	s.same("memory", memory, make([]byte, 100))
	s.noError(region.Deregister())
}

func exposureDeregisterTwice(s *suite, a, b *Peer) {
	region := b.Expose(make([]byte, 100), rdmacm.RemoteWrite)
	s.noError(region.Deregister())
	s.noError(region.Deregister())
	s.lives(a, b)
}

// After Deregister has returned, no work of the peer reaches the memory (conformance row
// IW-103). Nothing overwrites what the owner then writes there. With the race detector, the
// test also shows that the provider does not read the memory.
func exposureDeregisterWrites(s *suite, a, b *Peer) {
	const size, writes = 1 << 20, 64
	memory := make([]byte, size)
	region := b.Expose(memory, rdmacm.RemoteWrite)
	theirs := bytes.Repeat([]byte{0x11}, size)
	s.ok(a.Do(WriteOf(At(region, 0), theirs), SendOf()))
	var out []<-chan Outcome
	for range writes {
		out = append(out, a.Post(WriteOf(At(region, 0), theirs)))
	}
	b.Receive()
	s.noError(region.Deregister())
	mine := bytes.Repeat([]byte{0x22}, size)
	copy(memory, mine)
	a.Post(WriteOf(At(region, 0), theirs))
	s.killedUnless(rdmacm.FaultIsNotNamed, a)
	s.killedUnless(rdmacm.FaultLooksOrderly, b)
	s.same("memory", memory, mine)
	for _, o := range out {
		a.await(o)
	}
}

func exposureDeregisterReads(s *suite, a, b *Peer) {
	const size = 4 << 20
	memory := bytes.Repeat([]byte{0x11}, size)
	region := b.Expose(memory, rdmacm.RemoteRead)
	var out []<-chan Outcome
	var got [][]byte
	a.Post(SendOf())
	for range a.Conn().ReadDepth() {
		got = append(got, make([]byte, size))
		out = append(out, a.Post(ReadOf(At(region, 0), got[len(got)-1])))
	}
	b.Receive()
	s.noError(region.Deregister())
	for i := range memory {
		memory[i] = 0x22
	}
	// The sink of a failed Read may contain anything, so a single byte 0x22 proves nothing.
	later := bytes.Repeat([]byte{0x22}, 32)
	for i, o := range out {
		err := a.await(o).Err
		seen := bytes.Contains(got[i], later) || err == nil && bytes.IndexByte(got[i], 0x22) >= 0
		if seen && !s.lacks(b, rdmacm.ReadsSeeLaterBytes) {
			s.Fatal("a Read brings what was written after Deregister")
		}
		if err == nil && bytes.IndexByte(got[i], 0) >= 0 {
			s.Fatal("a Read succeeds without all its bytes")
		}
	}
}

func exposureEnd(s *suite) {
	a, b := s.pair(common(), common())
	memory := make([]byte, 1<<20)
	region := b.Expose(memory, rdmacm.RemoteWrite)
	for range 20 {
		a.Post(WriteOf(At(region, 0), pattern(1, 1<<20)))
	}
	b.Conn().Abort(nil)
	b.End()
	mine := pattern(2, 1<<20)
	copy(memory, mine)
	a.End()
	s.same("memory", memory, mine)
	s.noError(region.Deregister())
	if r, err := b.Conn().Register(memory, rdmacm.RemoteRead); err == nil {
		s.noError(r.Deregister())
	}
}
