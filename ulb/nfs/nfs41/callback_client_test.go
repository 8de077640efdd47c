package nfs41

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// A client41 is the client's end of a connection. It answers calls as a client does. It answers a
// call of another minor version than that of its sessions with an error.
type client41 struct {
	// minor is the minor version of its sessions. 0 means 1.
	minor uint32
	// answer, if not nil, writes the results of a CB_COMPOUND. If it returns an error, the call
	// ends with that error instead. If silent is true, the client answers no call.
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
	signer           string // body of the credential, if the call uses an RPCSEC_GSS context
	minor, ident     uint32
	sequence         wire.CBSequence4Args
	op               wire.CBOpNum // 0 if the compound has no operation
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

// speak sets silent: it lets the client answer calls from now on, or not.
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

// fine answers with NFS4_OK for CB_SEQUENCE and for the operation.
func (c *calledBack) fine(w *xdr.Writer) error { return c.reply(w, wire.NFS4OK, wire.NFS4OK) }

// reply answers with the status sequence for CB_SEQUENCE, and status for the operation.
func (c *calledBack) reply(w *xdr.Writer, sequence, status wire.NFSStat4) error {
	return c.replyWanting(w, sequence, status, 7)
}

// replyWanting is reply, and tells the server target as the highest slot to use.
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

// early returns the answer of a client that fails before CB_SEQUENCE.
func early(status wire.NFSStat4) func(*calledBack, *xdr.Writer) error {
	return func(_ *calledBack, w *xdr.Writer) error {
		w.Uint32(uint32(status))
		w.Opaque(nil)
		w.Uint32(0)
		return nil
	}
}

// inEachMinor runs a test in each of the minor versions that have sessions.
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

// A caller41 ends each call at once, with an answer, and counts the calls that are cancelled later.
type caller41 struct{ cancelled atomic.Int64 }

func (c *caller41) Start(x *rpc.Exchange) { x.Done(x) }

func (c *caller41) Cancel(*rpc.Exchange, error) { c.cancelled.Add(1) }
