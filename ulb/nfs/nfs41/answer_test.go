package nfs41

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// For each answer of the client, the call has the expected outcome, and so have the later calls in
// the slot and the flags of SEQUENCE.
func TestAnswers(t *testing.T) { inEachMinor(t, answers) }

func answers(t *testing.T, minor uint32) {
	lost := func(n int) func(*calledBack, *xdr.Writer) error { // the client executes the first n calls, but their replies are lost
		return func(c *calledBack, w *xdr.Writer) error {
			if n--; n >= 0 {
				return rpc.ErrCallLost
			}
			return c.fine(w)
		}
	}
	refused := &rpc.ReplyError{Stat: rpc.AcceptProgUnavail}
	for _, c := range []struct {
		name   string
		answer func(c *calledBack, w *xdr.Writer) error
		want   outcome
		seen   [][2]uint32 // sequence number and operation of each received call
		next   uint32      // the sequence number of the next call
		flags  uint32
	}{
		{"all is well", (*calledBack).fine, outcome{}, [][2]uint32{{1, 10}}, 2, 0},
		{"the operation fails", func(c *calledBack, w *xdr.Writer) error { return c.reply(w, 0, wire.NFS4ErrBadHandle) },
			outcome{status: wire.NFS4ErrBadHandle}, [][2]uint32{{1, 10}}, 2, 0},
		{"CB_SEQUENCE fails", func(c *calledBack, w *xdr.Writer) error { return c.reply(w, wire.NFS4ErrBadSession, 0) },
			outcome{err: &StatusError{wire.NFS4ErrBadSession}}, [][2]uint32{{1, 10}}, 1, 0},
		{"the reply is lost", lost(1), outcome{}, [][2]uint32{{1, 10}, {1, 0}, {2, 10}}, 3, 0},
		{"all replies are lost", lost(4), outcome{err: ErrUnanswered}, [][2]uint32{{1, 10}, {1, 0}, {1, 0}, {1, 0}}, 1, 0},
		{"it was seen before", func() func(*calledBack, *xdr.Writer) error {
			seen := uint32(3) // highest sequence number that the client has seen, in calls without an answer
			return func(c *calledBack, w *xdr.Writer) error {
				if c.sequence.Sequenceid <= seen {
					return c.reply(w, wire.NFS4ErrRetryUncachedRep, 0)
				}
				return c.fine(w)
			}
		}(), outcome{err: ErrUnanswered}, [][2]uint32{{1, 10}, {1, 0}, {2, 10}, {2, 0}}, 3, 0},
		{"the one before is under way", func(c *calledBack, w *xdr.Writer) error { return c.reply(w, wire.NFS4ErrDelay, 0) },
			outcome{err: ErrUnanswered}, [][2]uint32{{1, 10}}, 1, 0},
		{"there is no such program", func(*calledBack, *xdr.Writer) error { return refused },
			outcome{err: refused}, [][2]uint32{{1, 10}}, 1, wire.Seq4StatusCBPathDown | wire.Seq4StatusCBPathDownSession},
		{"another slot's answer", func(c *calledBack, w *xdr.Writer) error {
			other := *c
			other.sequence.Slotid++
			return other.fine(w)
		}, outcome{err: ErrBadAnswer}, [][2]uint32{{1, 10}}, 1,
			wire.Seq4StatusBackchannelFault | wire.Seq4StatusCBPathDown | wire.Seq4StatusCBPathDownSession},
		{"misordered for ever", func(c *calledBack, w *xdr.Writer) error { return c.reply(w, wire.NFS4ErrSeqMisordered, 0) },
			outcome{err: ErrBadAnswer}, [][2]uint32{{1, 10}, {1, 0}}, 1,
			wire.Seq4StatusBackchannelFault | wire.Seq4StatusCBPathDown | wire.Seq4StatusCBPathDownSession},
		{"no answer to the operation", func(c *calledBack, w *xdr.Writer) error {
			short := *c
			short.op = 0
			return short.fine(w)
		}, outcome{err: ErrBadAnswer}, [][2]uint32{{1, 10}}, 2, 0},
		{"nothing", func(*calledBack, *xdr.Writer) error { return nil }, outcome{err: ErrBadAnswer}, [][2]uint32{{1, 10}}, 1,
			wire.Seq4StatusBackchannelFault | wire.Seq4StatusCBPathDown | wire.Seq4StatusCBPathDownSession},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := &client41{minor: minor, answer: c.answer}
			s, far := backSession(t, k, nil)
			done := make(chan outcome, 1)
			s.Call(recallSlot(done))
			o := <-done
			var status *StatusError
			if errors.As(c.want.err, &status) {
				var got *StatusError
				if !errors.As(o.err, &got) || *got != *status {
					t.Errorf("%+v", o)
				}
			} else if o != c.want {
				t.Errorf("%+v, not %+v", o, c.want)
			}
			if !slices.Equal(k.seen(), c.seen) {
				t.Errorf("seen %v, not %v", k.seen(), c.seen)
			}
			if got := flagsOf(t, far.run()); got != c.flags {
				t.Errorf("flags %#x, not %#x", got, c.flags)
			}
			k.answer, k.calls = nil, nil
			s.Call(recallSlot(done))
			<-done
			if first := k.seen()[0][0]; first != c.next {
				t.Errorf("the next call has sequence %d, not %d", first, c.next)
			}
		})
	}
}

// If a client fails before CB_SEQUENCE, the compound's status gives the reason. The server treats
// it as the status of CB_SEQUENCE: for the call, its slot, the flags of SEQUENCE and later calls.
func TestEarlyStatuses(t *testing.T) {
	inEachMinor(t, func(t *testing.T, minor uint32) {
		for _, status := range []wire.NFSStat4{
			wire.NFS4ErrDelay, wire.NFS4ErrBadXDR, wire.NFS4ErrMinorVersMismatch, wire.NFS4ErrBadSession, wire.NFS4ErrBadSlot,
			wire.NFS4ErrSeqMisordered, wire.NFS4ErrRetryUncachedRep, wire.NFS4ErrSeqFalseRetry, wire.NFS4ErrReqTooBig, wire.NFS4ErrServerFault,
		} {
			type effect struct {
				status wire.NFSStat4
				err    string
				seen   string
				flags  uint32
				next   uint32
			}
			of := func(answer func(*calledBack, *xdr.Writer) error) effect {
				k := &client41{minor: minor, answer: answer}
				s, far := backSession(t, k, nil)
				done := make(chan outcome, 1)
				s.Call(recallSlot(done))
				o := <-done
				e := effect{o.status, fmt.Sprint(o.err), fmt.Sprint(k.seen()), flagsOf(t, far.run()), 0}
				k.answer, k.calls = nil, nil
				s.Call(recallSlot(done))
				if o := <-done; o != (outcome{}) {
					t.Errorf("%v: the next call: %+v", status, o)
				}
				e.next = k.seen()[0][0]
				return e
			}
			whole, sequence := of(early(status)), of(func(c *calledBack, w *xdr.Writer) error { return c.reply(w, status, 0) })
			if whole != sequence || whole.err == "<nil>" {
				t.Errorf("%v of the compound: %+v; of CB_SEQUENCE: %+v", status, whole, sequence)
			}
		}
	})
}

// For any answer of a client, the call ends once and frees its slot.
func FuzzAnswer(f *testing.F) {
	c := &calledBack{op: wire.OpCBRecallSlot, sequence: wire.CBSequence4Args{Sequenceid: 1}}
	for _, status := range []wire.NFSStat4{wire.NFS4OK, wire.NFS4ErrDelay} {
		w := xdr.NewWriter(make([]byte, 0, 256))
		c.reply(w, status, wire.NFS4ErrBadHandle)
		f.Add(w.Bytes())
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		k := &client41{answer: func(_ *calledBack, w *xdr.Writer) error {
			w.FixedOpaque(b[:min(len(b), 2048)&^3])
			return nil
		}}
		s := &Session{client: &client{}, minor: &Minor{}, share: &share{site: new(share)}}
		s.minor.cache.init(1 << 20)
		s.fore.Maxrequests, s.back.Maxrequests, s.back.Maxrequestsize = 1, 1, 4096
		s.security.Store(&security{plain: true})
		s.init()
		conn := &rpc.Conn{}
		conn.SetCaller(k)
		s.conns.Store(&[]*binding{{conn: conn, back: true}})
		ends := 0
		s.Call(&Callback{Number: wire.OpCBRecallSlot, Args: &wire.CBRecallSlot4Args{},
			Done: func(wire.NFSStat4, *xdr.Decoder, error) { ends++ }})
		if n := s.minor.cache.others.Held(); ends != 1 || s.calls.slots[0].busy || n != 0 {
			t.Errorf("%d ends, busy %v, %d bytes taken", ends, s.calls.slots[0].busy, n)
		}
	})
}
