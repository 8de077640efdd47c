package client_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sync"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/test/testserver"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// fake4 is a server of NFS version 4.1 with one file, controlled by a test. It fails the test if
// a client breaks the rules of sessions.
type fake4 struct {
	t testing.TB

	mu       sync.Mutex
	id       uint64
	clients  map[uint64]*fakeClient
	sessions map[wire.SessionID4]*fakeSession
	data     []byte
	// writes counts the executed WRITEs. ran counts all executed operations by number.
	writes int
	ran    map[wire.OpNum]int
	order  []wire.OpNum
	heard  chan wire.OpNum

	// Settings of tests.
	slots, target uint32
	longest       uint32 // ca_maxrequestsize; 0 means what the client wants
	flags         uint32
	lease         uint32
	delays        int  // number of SEQUENCEs still to be answered with NFS4ERR_DELAY
	lose          bool // the reply to the next WRITE is lost, with its connection
	stall         chan struct{}
	noContext     int  // number of BACKCHANNEL_CTLs still to be refused
	unprotected   bool // SP4_MACH_CRED is refused
	stalled       chan struct{}
}

type fakeClient struct {
	owner     string
	protect   wire.StateProtect4A
	sequence  uint32
	created   *wire.CreateSession4ResOK // the last CREATE_SESSION
	reclaimed bool
}

type fakeSession struct {
	client uint64
	slots  []fakeSlot
	conns  map[*rpc.Conn]bool
	// offers are the flavors that the client offers for callbacks, in its order. back has the
	// handles of an RPCSEC_GSS context among them, or is nil.
	offers []uint32
	back   *wire.GSSCBHandles4
	// highest is the highest slot that a request has used since the test reset it.
	highest uint32
}

type fakeSlot struct {
	seq   uint32
	busy  bool
	call  []byte
	reply []byte
}

func newFake4(t testing.TB) (*fake4, *testserver.Server) { return newFake4Behind(t, nil) }

// newFake4Behind is like newFake4, but the calls go to front.
func newFake4Behind(t testing.TB, front rpc.Program) (*fake4, *testserver.Server) {
	f := &fake4{
		t: t, clients: map[uint64]*fakeClient{}, sessions: map[wire.SessionID4]*fakeSession{},
		ran: map[wire.OpNum]int{}, data: testserver.Pattern(300_000),
		slots: 8, target: 7, lease: 90, stalled: make(chan struct{}, 64), heard: make(chan wire.OpNum, 4096),
	}
	s := testserver.Start(t)
	if front == nil {
		front = f
	}
	s.RPC.Register(front)
	t.Cleanup(func() { // after the sessions have ended
		await.Until(t, "the connections of the ended sessions are closed", func() bool {
			return s.RDMA.Stats().Connections.Load() == 0
		})
	})
	return f, s
}

// session makes a client's session with f, which ends with the test.
func (f *fake4) session(target client.Target, cfg client.SessionConfig) *client.Session {
	f.t.Helper()
	cfg.Target = target
	s, err := client.DialSession(testserver.Within(f.t), cfg)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = s.Close() }) // for tests that end with a broken server
	return s
}

// set changes settings while it holds the lock.
func (f *fake4) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// count returns the number of times that an operation was executed.
func (f *fake4) count(op wire.OpNum) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ran[op]
}

func (f *fake4) Number() uint32             { return wire.Program }
func (f *fake4) Versions() (low, hi uint32) { return wire.Version, wire.Version }
func (f *fake4) Binding(uint32) *rpc.Binding {
	return &nfs.Binding4
}
func (f *fake4) Judge(*rpc.Arrived, *rpc.Judgement) rpc.Outcome { return rpc.Done }

func (f *fake4) Serve(c *rpc.Call, w *xdr.Writer) rpc.Outcome {
	if c.Header.Procedure == wire.ProcNull {
		return rpc.Done
	}
	if c.Try && f.mayStall() {
		return rpc.WouldBlock(f)
	}
	d := &c.Args
	call := d.Rest()
	tag, minor, n := d.Opaque(wire.NFS4OpaqueLimit), d.Uint32(), d.Uint32()
	k := &fakeCompound{f: f, c: c, call: call, d: d, w: w, n: n}
	at := w.Len()
	w.Uint32(0)
	w.Opaque(tag)
	countAt := w.Len()
	w.Uint32(0)
	if minor != 1 && minor != 2 {
		w.PatchUint32(at, uint32(wire.NFS4ErrMinorVersMismatch))
		return rpc.Done
	}
	status := wire.NFS4OK
	for ; status == wire.NFS4OK && k.index < n && !k.replayed; k.index++ {
		status = k.operation()
	}
	if k.replayed {
		w.Truncate(at)
		w.FixedOpaque(k.slot.reply)
		return rpc.Done
	}
	w.PatchUint32(at, uint32(status))
	w.PatchUint32(countAt, k.index)
	f.mu.Lock()
	defer f.mu.Unlock()
	if k.slot != nil {
		k.slot.busy = false
		if k.slot.reply = nil; k.cache || k.n == 1 {
			k.slot.reply = slices.Clone(w.Bytes()[at:])
		}
	}
	if k.wrote && f.lose {
		f.lose = false
		return rpc.DropAndEnd
	}
	return rpc.Done
}

// mayStall reports whether the test wants WRITEs to wait.
func (f *fake4) mayStall() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stall != nil
}

type fakeCompound struct {
	f               *fake4
	c               *rpc.Call
	call            []byte
	d               *xdr.Decoder
	w               *xdr.Writer
	index, n        uint32
	session         *fakeSession
	slot            *fakeSlot
	cache           bool
	replayed, wrote bool
}

// operation executes one operation and writes its result.
func (k *fakeCompound) operation() wire.NFSStat4 {
	op := wire.OpNum(k.d.Uint32())
	k.w.Uint32(uint32(op))
	at := k.w.Len()
	k.w.Uint32(0)
	if op == wire.OpWrite {
		k.wait()
	}
	k.f.mu.Lock()
	defer k.f.mu.Unlock()
	status := k.run(op)
	if !k.replayed {
		k.w.PatchUint32(at, uint32(status))
	}
	if status == wire.NFS4OK && !k.replayed {
		k.f.ran[op]++
		k.f.order = append(k.f.order, op)
		select {
		case k.f.heard <- op:
		default:
		}
	}
	return status
}

// wait waits until the test lets WRITEs continue.
func (k *fakeCompound) wait() {
	k.f.mu.Lock()
	gate := k.f.stall
	k.f.mu.Unlock()
	if gate != nil {
		k.f.stalled <- struct{}{}
		<-gate
	}
}

// run executes op. f.mu is held.
func (k *fakeCompound) run(op wire.OpNum) wire.NFSStat4 {
	f, d, w := k.f, k.d, k.w
	alone := op == wire.OpExchangeID || op == wire.OpCreateSession || op == wire.OpBindConnToSession ||
		op == wire.OpDestroySession || op == wire.OpDestroyClientID
	if (op == wire.OpSequence) != (k.index == 0 && !alone) {
		if !alone {
			f.t.Errorf("operation %d of a compound is %v", k.index, op)
		}
	}
	switch op {
	case wire.OpExchangeID:
		return k.exchangeID()
	case wire.OpCreateSession:
		return k.createSession()
	case wire.OpSequence:
		return k.sequence()
	case wire.OpBindConnToSession:
		var args wire.BindConnToSession4Args
		args.Decode(d)
		s := f.sessions[args.Sessid]
		if s == nil {
			return wire.NFS4ErrBadSession
		}
		s.conns[k.c.Conn] = true
		f.flags = 0
		(&wire.BindConnToSession4ResOK{Sessid: args.Sessid, Dir: wire.Cdfs4Both}).Encode(w)
	case wire.OpDestroySession:
		var args wire.DestroySession4Args
		args.Decode(d)
		if f.sessions[args.Sessionid] == nil {
			return wire.NFS4ErrBadSession
		}
		delete(f.sessions, args.Sessionid)
	case wire.OpDestroyClientID:
		id := d.Uint64()
		if f.clients[id] == nil {
			return wire.NFS4ErrStaleClientID
		}
		delete(f.clients, id)
	case wire.OpReclaimComplete:
		d.Bool()
		if c := f.clients[k.session.client]; c.reclaimed {
			return wire.NFS4ErrCompleteAlready
		} else {
			c.reclaimed = true
		}
	case wire.OpBackchannelCtl:
		var args wire.BackchannelCtl4Args
		args.Decode(d)
		if k.session.offer(args.SecParms.Next); k.session.back != nil && f.noContext > 0 {
			f.noContext--
			return wire.NFS4ErrNoEnt
		}
		f.flags = 0
	case wire.OpPutRootFH, wire.OpSaveFH:
	case wire.OpPutFH:
		d.Opaque(wire.NFS4FHSize)
	case wire.OpLookup:
		if string(d.Opaque(xdr.NoLimit)) == "missing" {
			return wire.NFS4ErrNoEnt
		}
	case wire.OpGetFH:
		w.Opaque([]byte("the file"))
	case wire.OpGetattr:
		var args wire.Getattr4Args
		args.Decode(d)
		k.getattr(&args.AttrRequest)
	case wire.OpRead:
		var args wire.Read4Args
		args.Decode(d)
		from := min(args.Offset, uint64(len(f.data)))
		to := min(from+uint64(args.Count), uint64(len(f.data)))
		w.Bool(to == uint64(len(f.data)))
		w.Payload(slices.Clone(f.data[from:to]), true, nil)
	case wire.OpWrite:
		var args wire.Write4Args
		args.Decode(d)
		if d.Err() == nil {
			copy(f.data[args.Offset:], args.Data.Data)
		}
		f.writes++
		k.wrote = true
		(&wire.Write4ResOK{Count: uint32(len(args.Data.Data)), Committed: wire.FileSync4}).Encode(w)
	default:
		return wire.NFS4ErrNotSupp
	}
	return wire.NFS4OK
}

func (k *fakeCompound) getattr(wanted *wire.Bitmap4) {
	var mask wire.Bitmap4
	var values []byte
	if wanted.Has(wire.Fattr4Size) {
		mask.Set(wire.Fattr4Size)
		values = binary.BigEndian.AppendUint64(values, uint64(len(k.f.data)))
	}
	if wanted.Has(wire.Fattr4LeaseTime) {
		mask.Set(wire.Fattr4LeaseTime)
		values = binary.BigEndian.AppendUint32(values, k.f.lease)
	}
	(&wire.FAttr4{Attrmask: mask, AttrVals: values}).Encode(k.w)
}

func (k *fakeCompound) exchangeID() wire.NFSStat4 {
	var args wire.ExchangeID4Args
	args.Decode(k.d)
	f := k.f
	protect := &args.StateProtect
	if protect.How != wire.Sp4None && f.unprotected {
		return wire.NFS4ErrInvalid
	}
	f.id++
	f.clients[f.id] = &fakeClient{owner: string(args.Clientowner.Ownerid), protect: *protect, sequence: 1}
	(&wire.ExchangeID4ResOK{
		Clientid: f.id, Sequenceid: 1, Flags: wire.Exchgid4FlagUseNonPNFS,
		StateProtect: wire.StateProtect4R{How: protect.How, MachOps: protect.MachOps},
		ServerOwner:  wire.ServerOwner4{MinorID: 7, MajorID: []byte("fake")}, ServerScope: []byte("test"),
	}).Encode(k.w)
	return wire.NFS4OK
}

func (k *fakeCompound) createSession() wire.NFSStat4 {
	var args wire.CreateSession4Args
	args.Decode(k.d)
	f := k.f
	c := f.clients[args.Clientid]
	switch {
	case k.d.Err() != nil:
		return wire.NFS4ErrBadXDR
	case c == nil:
		return wire.NFS4ErrStaleClientID
	case args.Sequence+1 == c.sequence && c.created != nil && c.created.Sequence == args.Sequence && f.sessions[c.created.Sessionid] != nil:
		c.created.Encode(k.w)
		f.sessions[c.created.Sessionid].conns[k.c.Conn] = true
		return wire.NFS4OK
	case args.Sequence != c.sequence:
		f.t.Errorf("CREATE_SESSION with sequence %d, not %d", args.Sequence, c.sequence)
		return wire.NFS4ErrSeqMisordered
	}
	c.sequence++
	f.id++
	var id wire.SessionID4
	binary.BigEndian.PutUint64(id[:], f.id)
	s := &fakeSession{client: args.Clientid, slots: make([]fakeSlot, f.slots), conns: map[*rpc.Conn]bool{k.c.Conn: true}}
	s.offer(args.SecParms.Next)
	f.sessions[id] = s
	res := wire.CreateSession4ResOK{
		Sessionid: id, Sequence: args.Sequence, Flags: args.Flags, ForeChanAttrs: args.ForeChanAttrs, BackChanAttrs: args.BackChanAttrs,
	}
	res.ForeChanAttrs.Maxrequests = min(res.ForeChanAttrs.Maxrequests, f.slots)
	if f.longest > 0 {
		res.ForeChanAttrs.Maxrequestsize = f.longest
	}
	c.created = &res
	res.Encode(k.w)
	return wire.NFS4OK
}

// offer records the flavors that callbacks may use.
func (s *fakeSession) offer(next func(*wire.CallbackSecParms4) bool) {
	s.offers, s.back = nil, nil
	var offer wire.CallbackSecParms4
	for next(&offer) {
		s.offers = append(s.offers, offer.Secflavor)
		if h := offer.GSSHandles; offer.Secflavor == wire.RPCSECGSS {
			s.back = &wire.GSSCBHandles4{
				Service: h.Service, HandleFromServer: slices.Clone(h.HandleFromServer), HandleFromClient: slices.Clone(h.HandleFromClient),
			}
		}
	}
}

func (k *fakeCompound) sequence() wire.NFSStat4 {
	var args wire.Sequence4Args
	args.Decode(k.d)
	f := k.f
	s := f.sessions[args.Sessionid]
	switch {
	case s == nil:
		return wire.NFS4ErrBadSession
	case args.Slotid >= uint32(len(s.slots)):
		f.t.Errorf("slot %d of %d", args.Slotid, len(s.slots))
		return wire.NFS4ErrBadSlot
	case args.HighestSlotid < args.Slotid:
		f.t.Errorf("slot %d, and the highest is %d", args.Slotid, args.HighestSlotid)
	case f.delays > 0:
		f.delays--
		return wire.NFS4ErrDelay
	}
	s.highest = max(s.highest, args.Slotid)
	slot := &s.slots[args.Slotid]
	switch {
	case args.Sequenceid < slot.seq:
		// The request is a copy that was still on its way when its connection was lost.
		return wire.NFS4ErrSeqMisordered
	case slot.busy && args.Sequenceid == slot.seq:
		return wire.NFS4ErrDelay
	case slot.busy:
		f.t.Errorf("slot %d is used twice: %d while %d is under way", args.Slotid, args.Sequenceid, slot.seq)
		return wire.NFS4ErrSeqMisordered
	case args.Sequenceid == slot.seq && !bytes.Equal(slot.call, k.call):
		return wire.NFS4ErrSeqFalseRetry
	case args.Sequenceid == slot.seq && slot.reply == nil:
		return wire.NFS4ErrRetryUncachedRep
	case args.Sequenceid == slot.seq:
		k.slot, k.replayed = slot, true
		return wire.NFS4OK
	case args.Sequenceid != slot.seq+1:
		f.t.Errorf("slot %d: %d after %d", args.Slotid, args.Sequenceid, slot.seq)
		return wire.NFS4ErrSeqMisordered
	}
	slot.seq, slot.busy, slot.call, slot.reply = args.Sequenceid, true, slices.Clone(k.call), nil
	k.session, k.slot, k.cache = s, slot, args.Cachethis
	(&wire.Sequence4ResOK{
		Sessionid: args.Sessionid, Sequenceid: args.Sequenceid, Slotid: args.Slotid,
		HighestSlotid: uint32(len(s.slots)) - 1, TargetHighestSlotid: f.target, StatusFlags: f.flags,
	}).Encode(k.w)
	return wire.NFS4OK
}

// forget makes the server forget all sessions and, if clients is set, all clients.
func (f *fake4) forget(clients bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.sessions)
	if clients {
		clear(f.clients)
	}
}

// only returns the only session. The test fails if there are none or several.
func (f *fake4) only() (id wire.SessionID4, s *fakeSession) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, s = range f.sessions {
	}
	if len(f.sessions) != 1 {
		f.t.Fatalf("%d sessions", len(f.sessions))
	}
	return id, s
}
