package nfs41

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// A client41 is the client's end of a connection. It answers calls as a client does, and calls of
// another minor version than its sessions' with an error.
type client41 struct {
	// minor is the minor version of its sessions. 0 means 1.
	minor uint32
	// answer, if not nil, writes the results of a CB_COMPOUND. If it returns an error, the call
	// ends with that error instead. silent: the client answers no call.
	answer func(c *calledBack, w *xdr.Writer) error
	silent bool
	// slow is the delay before a call begins.
	slow time.Duration

	mu      sync.Mutex
	calls   []*calledBack
	waiting map[*rpc.Exchange]bool
	nulls   int
}

// calledBack is a received CB_COMPOUND.
type calledBack struct {
	program, version uint32
	flavor           rpc.Flavor
	signer           string // the body of its credential, if it has a context's
	minor, ident     uint32
	sequence         wire.CBSequence4Args
	op               wire.CBOpNum // 0: no operation
	recall           wire.CBRecallSlot4Args
	notice           wire.CBNotifyLock4Args
}

func (k *client41) Start(x *rpc.Exchange) {
	time.Sleep(k.slow)
	k.mu.Lock()
	if k.silent {
		if k.waiting == nil {
			k.waiting = map[*rpc.Exchange]bool{}
		}
		k.waiting[x] = true
		k.mu.Unlock()
		return
	}
	if x.Procedure == wire.ProcCBNull {
		k.nulls++
		k.mu.Unlock()
		x.Done(x)
		return
	}
	c := &calledBack{program: x.Program, version: x.Version, flavor: x.Cred.Flavor}
	if c.flavor == rpc.AuthGSS {
		c.signer = string(x.Cred.Body)
	}
	w := xdr.NewWriter(make([]byte, 0, x.MaxArgs))
	x.Args(w)
	c.decode(xdr.NewDecoder(w.Bytes()))
	if w.Overflow() {
		panic("a call is longer than it says")
	}
	k.calls = append(k.calls, c)
	k.mu.Unlock()
	r := xdr.NewWriter(make([]byte, 0, 4096))
	answer := k.answer
	switch {
	case c.minor != max(1, k.minor):
		answer = early(wire.NFS4ErrMinorVersMismatch)
	case answer == nil:
		answer = (*calledBack).fine
	}
	if x.Err = answer(c, r); x.Err == nil {
		x.Results = *xdr.NewDecoder(r.Bytes())
	}
	x.Done(x)
}

func (k *client41) Cancel(x *rpc.Exchange, err error) {
	k.mu.Lock()
	there := k.waiting[x]
	delete(k.waiting, x)
	k.mu.Unlock()
	if there {
		x.Err = err
		x.Done(x)
	}
}

// speak makes the client answer calls from now on, or not, if silent is set.
func (k *client41) speak(silent bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.silent = silent
}

// seen returns the sequence numbers and operations of the received calls.
func (k *client41) seen() (all [][2]uint32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.calls {
		all = append(all, [2]uint32{c.sequence.Sequenceid, uint32(c.op)})
	}
	return all
}

func (c *calledBack) decode(d *xdr.Decoder) {
	d.Opaque(1024)
	c.minor, c.ident = d.Uint32(), d.Uint32()
	n := d.Uint32()
	if op := wire.CBOpNum(d.Int32()); op != wire.OpCBSequence {
		panic(op)
	}
	c.sequence.Decode(d)
	if n > 1 {
		c.op = wire.CBOpNum(d.Int32())
		if c.op == wire.OpCBNotifyLock {
			c.notice.Decode(d)
		} else {
			c.recall.Decode(d)
		}
	}
	if err := d.Finish(); err != nil {
		panic(err)
	}
}

// fine answers with NFS4_OK.
func (c *calledBack) fine(w *xdr.Writer) error { return c.reply(w, wire.NFS4OK, wire.NFS4OK) }

// reply answers with statuses of CB_SEQUENCE and of the operation.
func (c *calledBack) reply(w *xdr.Writer, sequence, status wire.NFSStat4) error {
	return c.replyWanting(w, sequence, status, 7)
}

// replyWanting is reply with target as the highest slot that the client wants used.
func (c *calledBack) replyWanting(w *xdr.Writer, sequence, status wire.NFSStat4, target uint32) error {
	n, whole := uint32(1), sequence
	if sequence == wire.NFS4OK && c.op != 0 {
		n, whole = 2, status
	}
	w.Uint32(uint32(whole))
	w.Opaque(nil)
	w.Uint32(n)
	w.Uint32(uint32(wire.OpCBSequence))
	s := &c.sequence
	res := wire.CBSequence4Res{Status: sequence, ResOK: wire.CBSequence4ResOK{
		Sessionid: s.Sessionid, Sequenceid: s.Sequenceid, Slotid: s.Slotid, HighestSlotid: 7, TargetHighestSlotid: target,
	}}
	res.Encode(w)
	if n == 2 {
		w.Uint32(uint32(c.op))
		w.Uint32(uint32(status))
	}
	return nil
}

// early is the answer of a client that fails before CB_SEQUENCE.
func early(status wire.NFSStat4) func(*calledBack, *xdr.Writer) error {
	return func(_ *calledBack, w *xdr.Writer) error {
		w.Uint32(uint32(status))
		w.Opaque(nil)
		w.Uint32(0)
		return nil
	}
}

// inEachMinor runs a test of callbacks in the minor versions that have sessions.
func inEachMinor(t *testing.T, f func(t *testing.T, minor uint32)) {
	for minor := uint32(1); minor <= 2; minor++ {
		t.Run(fmt.Sprintf("minor version %d", minor), func(t *testing.T) { f(t, minor) })
	}
}

// backSession makes a session of k's minor version whose connection carries calls to k.
func backSession(t testing.TB, k *client41, change func(a *wire.CreateSession4Args)) (*Session, *session) {
	site, m := site(t, Config{}, state.Config{})
	p := site.Peer(max(1, k.minor))
	p.Conn.SetCaller(k)
	args := createArgs(newClient(p, "client", 1), 1)
	args.Flags = wire.CreateSession4FlagConnBackChan
	w := xdr.NewWriter(make([]byte, 0, 512))
	w.Uint32(1)
	secSys.Encode(w)
	args.SecParms.Decode(xdr.NewDecoder(w.Bytes()))
	if change != nil {
		change(args)
	}
	s := sessionOf(p, args)
	return m.sessions.find(&s.id), s
}

// An outcome is the result of a call.
type outcome struct {
	status wire.NFSStat4
	err    error
}

// recallSlot returns a callback that sends its outcome to done.
func recallSlot(done chan outcome) *Callback {
	return &Callback{Number: wire.OpCBRecallSlot, Args: &wire.CBRecallSlot4Args{TargetHighestSlotid: 3},
		Done: func(s wire.NFSStat4, _ *xdr.Decoder, err error) { done <- outcome{s, err} }}
}

func TestCallback(t *testing.T) { inEachMinor(t, callback) }

func callback(t *testing.T, minor uint32) {
	k := &client41{minor: minor}
	s, far := backSession(t, k, nil)
	if k.nulls != 1 || !Answered(s.Client()) || !Reachable(s.Client()) {
		t.Errorf("the client was asked %d times whether it answers", k.nulls)
	}
	done := make(chan outcome, 3)
	sent := 0
	for i := range 3 {
		c := recallSlot(done)
		c.Sent = func() { sent++ }
		if i == 2 {
			Call(s.Client(), c)
		} else {
			s.Call(c)
		}
		if o := <-done; o != (outcome{}) {
			t.Errorf("%+v", o)
		}
	}
	if sent != 3 || !slices.Equal(k.seen(), [][2]uint32{{1, 10}, {2, 10}, {3, 10}}) {
		t.Errorf("sent %d, seen %v", sent, k.seen())
	}
	if c := k.calls[0]; c.program != 0x40000000 || c.version != 1 || c.flavor != rpc.AuthSys || c.minor != minor || c.ident != 0 ||
		c.sequence.Sessionid != far.id || c.sequence.Slotid != 0 || c.sequence.Cachethis || c.recall.TargetHighestSlotid != 3 {
		t.Errorf("%+v", c)
	}
	if r := far.run(); flagsOf(t, r) != 0 {
		t.Errorf("flags %#x", flagsOf(t, r))
	}
}

func flagsOf(t testing.TB, r *nfs4test.Result) uint32 {
	t.Helper()
	var res wire.Sequence4Res
	r.Ops[0].Into(t, &res)
	return res.ResOK.StatusFlags
}

// BACKCHANNEL_CTL changes the program, and how calls are signed.
func TestBackchannelCtl(t *testing.T) { inEachMinor(t, backchannelControl) }

func backchannelControl(t *testing.T, minor uint32) {
	k := &client41{minor: minor}
	s, far := backSession(t, k, nil)
	want(t, "an unknown context", far.run(backchannelCtl(7, secGSS)), wire.NFS4ErrNoEnt, 2)
	want(t, "another program", far.run(backchannelCtl(8, secNone)), wire.NFS4OK, 2)
	done := make(chan outcome, 1)
	s.Call(recallSlot(done))
	if o := <-done; o != (outcome{}) || k.calls[0].program != 8 || k.calls[0].flavor != rpc.AuthNone {
		t.Errorf("%+v: %+v", o, k.calls)
	}
}

// Each answer of the client, with its effect on the call and on the slot.
func TestAnswers(t *testing.T) { inEachMinor(t, answers) }

func answers(t *testing.T, minor uint32) {
	lost := func(n int) func(*calledBack, *xdr.Writer) error { // the first n calls, executed
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
		seen   [][2]uint32 // sequence and operation
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
			seen := uint32(3) // the sequence number that the client has seen in calls without an answer
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

// If a client fails before CB_SEQUENCE, the compound's status gives the reason. It counts as the
// status of CB_SEQUENCE: for the call, its slot, the flags of SEQUENCE and the server's next
// calls.
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

// SEQUENCE reports to a silent client that it does not answer. The server pings it again over the
// next connection that it binds. Then calls that wait for a slot get one.
func TestSilentClient(t *testing.T) {
	inEachMinor(t, func(t *testing.T, minor uint32) {
		synctest.Test(t, func(t *testing.T) { silentClient(t, minor) })
	})
}

func silentClient(t *testing.T, minor uint32) {
	k := &client41{minor: minor, silent: true}
	s, far := backSession(t, k, func(a *wire.CreateSession4Args) { a.BackChanAttrs.Maxrequests = 2 })
	if Answered(s.Client()) {
		t.Error("a silent client has answered")
	}
	begun := time.Now()
	done := make(chan outcome, 5)
	for range 3 {
		s.Call(recallSlot(done))
	}
	for range 3 {
		if o := <-done; o.err != ErrUnanswered {
			t.Errorf("%+v", o)
		}
	}
	if d := time.Since(begun); d > callTime+time.Second {
		t.Errorf("after %v", d)
	}
	const down = wire.Seq4StatusCBPathDown | wire.Seq4StatusCBPathDownSession
	if got := flagsOf(t, far.run()); got != down {
		t.Errorf("flags %#x", got)
	}
	k.speak(false)
	is(t, "BIND_CONN_TO_SESSION", bind(far.Peer, far.id, wire.Cdfc4ForeOrBoth).Status, wire.NFS4OK)
	if got := flagsOf(t, far.run()); got != 0 {
		t.Errorf("flags %#x", got)
	}
	s.Call(recallSlot(done))
	if o := <-done; o != (outcome{}) {
		t.Errorf("%+v", o)
	}
	// The slot was used before, and the server did not know whether the client had seen that call.
	// So it sends a probe first.
	if !slices.Equal(k.seen(), [][2]uint32{{1, 0}, {2, 10}}) {
		t.Errorf("seen %v", k.seen())
	}
}

// SEQUENCE reports that a session has no connection for calls. Until the client binds one, calls
// fail with ErrNoPath.
func TestLostBackchannel(t *testing.T) {
	k := &client41{}
	s, far := backSession(t, k, nil)
	old := far.Peer
	far.Peer = far.Site.Peer(1)
	if got := flagsOf(t, far.run()); got != 0 {
		t.Errorf("flags %#x", got)
	}
	old.Conn.Close()
	done := make(chan outcome, 1)
	s.Call(recallSlot(done))
	if o := <-done; o.err != ErrNoPath {
		t.Errorf("%+v", o)
	}
	const down = wire.Seq4StatusCBPathDown | wire.Seq4StatusCBPathDownSession
	if got := flagsOf(t, far.run()); got != down {
		t.Errorf("flags %#x", got)
	}
	// Another session of the client has a connection.
	p := far.Site.Peer(1)
	p.Conn.SetCaller(&client41{})
	args := createArgs(far.client, 2)
	args.Flags = wire.CreateSession4FlagConnBackChan
	args.SecParms = securityList(t, secNone)
	second := sessionOf(p, args)
	if got := flagsOf(t, far.run()); got != wire.Seq4StatusCBPathDownSession {
		t.Errorf("flags %#x", got)
	}
	if got := flagsOf(t, second.run()); got != 0 {
		t.Errorf("flags %#x", got)
	}
	Call(s.Client(), recallSlot(done))
	if o := <-done; o != (outcome{}) {
		t.Errorf("%+v", o)
	}
}

func TestCallsThatCannotBeMade(t *testing.T) {
	done := make(chan outcome, maxQueue+10)
	s, _ := backSession(t, &client41{}, func(a *wire.CreateSession4Args) { a.SecParms = wire.CreateSession4ArgsSecParms{} })
	s.Call(recallSlot(done))
	if o := <-done; o.err != ErrNoPath {
		t.Errorf("without a credential: %+v", o)
	}
	s, _ = backSession(t, &client41{}, func(a *wire.CreateSession4Args) { a.BackChanAttrs.Maxrequestsize = leastBackRequest })
	s.Call(&Callback{Number: wire.OpCBNotifyLock, Args: &wire.CBNotifyLock4Args{FH: make([]byte, 128), LockOwner: wire.StateOwner4{Owner: make([]byte, 1000)}},
		Done: func(s wire.NFSStat4, _ *xdr.Decoder, err error) { done <- outcome{s, err} }})
	if o := <-done; o.err != ErrTooLarge {
		t.Errorf("longer than the client takes: %+v", o)
	}
	k := &client41{silent: true}
	s, far := backSession(t, k, nil)
	for range 8 + maxQueue + 1 {
		s.Call(recallSlot(done))
	}
	if o := <-done; o.err != ErrTooMany {
		t.Errorf("one too many: %+v", o)
	}
	far.run(op(wire.OpDestroySession, &wire.DestroySession4Args{Sessionid: far.id}))
	for range maxQueue {
		if o := <-done; o.err != ErrNoPath {
			t.Errorf("one that waited when the session ended: %+v", o)
		}
	}
	s.Call(recallSlot(done))
	if o := <-done; o.err != ErrNoPath {
		t.Errorf("after the session's end: %+v", o)
	}
	for x := range k.waiting {
		k.Cancel(x, rpc.ErrCallLost)
	}
}

// For any answer of a client, the call ends once, and its slot becomes free.
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
		s := &Session{client: &client{}, minor: &Minor{}, share: &share{}}
		s.minor.cache.init(1 << 20)
		s.fore.Maxrequests, s.back.Maxrequests, s.back.Maxrequestsize = 1, 1, 4096
		s.security.Store(&security{plain: true})
		s.begin()
		conn := &rpc.Conn{}
		conn.SetCaller(k)
		s.conns.Store(&[]*binding{{conn: conn, back: true}})
		ends := 0
		s.Call(&Callback{Number: wire.OpCBRecallSlot, Args: &wire.CBRecallSlot4Args{},
			Done: func(wire.NFSStat4, *xdr.Decoder, error) { ends++ }})
		if n := s.minor.cache.others.Load(); ends != 1 || s.calls.slots[0].busy || n != 0 {
			t.Errorf("%d ends, busy %v, %d bytes taken", ends, s.calls.slots[0].busy, n)
		}
	})
}

// A caller41 ends each call at once, with an answer, and counts those that are cancelled later.
type caller41 struct{ cancelled atomic.Int64 }

func (c *caller41) Start(x *rpc.Exchange)       { x.Done(x) }
func (c *caller41) Cancel(*rpc.Exchange, error) { c.cancelled.Add(1) }

// A call that ends before its timer is set is not cancelled later, because its exchange may belong
// to another call by then.
func TestCallThatEndsAtOnceIsNotCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c caller41
		answered := 0
		startUntil(&c, &rpc.Exchange{Done: func(*rpc.Exchange) { answered++ }}, time.Now().Add(time.Minute))
		time.Sleep(time.Hour)
		if answered != 1 || c.cancelled.Load() != 0 {
			t.Errorf("answered %d times, cancelled %d times", answered, c.cancelled.Load())
		}
	})
}
