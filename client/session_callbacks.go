package client

import (
	"bytes"
	"slices"
	"sync"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// Callbacks are functions for the calls that a server makes on a session's backchannel. The
// session may call several at a time, on goroutines that also take replies. Except Restarted they
// must not block: a function that needs to make a request starts another goroutine for it. If
// Recall, NotifyLock or Attributes is nil, the server gets NFS4ERR_NOTSUPP for such callbacks.
type Callbacks struct {
	// Recall is called when the server recalls a delegation (RFC 8881 §20.2). By returning NFS4_OK
	// it promises to return the delegation by DELEGRETURN. If Recall is nil, NFS4.Open asks the
	// server not to grant a delegation, unless Open4.Access contains a wish about delegations.
	Recall func(r Recall) nfs4wire.NFSStat4
	// NotifyLock is called when a lock that was denied may now be available (RFC 8881 §20.11).
	NotifyLock func(file Handle, owner []byte)
	// Attributes returns the attributes that this client, which holds a write delegation, knows of
	// the file (RFC 8881 §20.1). The session encodes the result at once, and keeps no part of it.
	Attributes func(file Handle, wanted nfs4wire.Bitmap4) (nfs4wire.FAttr4, nfs4wire.NFSStat4)
	// Status is called when the flags in replies to SEQUENCE change: see Session.Status.
	Status func(flags uint32)
	// Restarted is called when the server has forgotten the client, and so all its state. It may
	// block.
	Restarted func()
}

// A Recall has the arguments of a CB_RECALL. The function Callbacks.Recall may keep the value after
// it has returned.
type Recall struct {
	File       Handle
	Delegation nfs4wire.StateID4
	// Truncate is true if the file is about to become empty.
	Truncate bool
}

// callbackProgram is the number of the callback program. It is one of the numbers that RFC
// 5531 §8.3 reserves for transient use; Linux uses the same.
const callbackProgram = 0x40000000

// backSlots is the largest number of callbacks that a session accepts at a time.
const backSlots = 16

// callbackService is the program that serves callbacks.
type callbackService struct {
	session *Session

	mu    sync.Mutex
	id    nfs4wire.SessionID4
	slots []backSlot
}

// A backSlot is a slot of the backchannel. reply is the last reply on it, which answers a
// repeated callback.
type backSlot struct {
	seq   uint32
	busy  bool
	reply []byte
}

// acceptFrom makes p accept the callbacks of a new session, and refuse those of the session before it.
func (p *callbackService) acceptFrom(id nfs4wire.SessionID4, slots uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.id, p.slots = id, make([]backSlot, min(max(slots, 1), backSlots))
}

var callbackBinding = rpc.Binding{Procedures: []rpc.Procedure{
	nfs4wire.ProcCBNull:     {Name: "CB_NULL"},
	nfs4wire.ProcCBCompound: {Name: "CB_COMPOUND", MaxArgs: maxCallback, MaxResults: maxCallback},
}}

// Number implements rpc.Program.
func (p *callbackService) Number() uint32 { return callbackProgram }

// Versions implements rpc.Program. The callback program has only version 1 (RFC 8881 §20.1), but
// some servers use the version of NFS instead.
func (p *callbackService) Versions() (low, high uint32) {
	return nfs4wire.CallbackVersion, nfs4wire.Version
}

// Binding implements rpc.Program. No part of a callback may be placed directly (RFC 8267 §6.5).
func (p *callbackService) Binding(version uint32) *rpc.Binding {
	if version == nfs4wire.CallbackVersion || version == nfs4wire.Version {
		return &callbackBinding
	}
	return nil
}

// Judge implements rpc.Program.
func (p *callbackService) Judge(*rpc.Arrived, *rpc.Judgement) rpc.Outcome { return rpc.Done }

// Serve implements rpc.Program.
func (p *callbackService) Serve(c *rpc.Call, w *xdr.Writer) rpc.Outcome {
	if c.Header.Procedure == nfs4wire.ProcCBNull {
		return rpc.Done
	}
	d := &c.Args
	tag := d.Opaque(nfs4wire.NFS4OpaqueLimit)
	minor := d.Uint32()
	d.Uint32() // callback_ident, which only minor version 0 uses
	n := d.Uint32()
	if d.Err() != nil {
		return rpc.GarbageArgs
	}
	k := callback{p: p, d: d, w: w, begin: w.Len()}
	w.Uint32(0) // status
	w.Opaque(tag)
	k.countAt = w.Len()
	w.Uint32(0)
	if minor != p.session.cfg.Minor {
		w.PatchUint32(k.begin, uint32(nfs4wire.NFS4ErrMinorVersMismatch))
		return rpc.Done
	}
	k.run(n)
	return rpc.Done
}

// A callback is one CB_COMPOUND.
type callback struct {
	p       *callbackService
	d       *xdr.Decoder
	w       *xdr.Writer
	begin   int // offset of the results
	countAt int
	slot    *backSlot
	// replayed is true if the results are those of an earlier callback with the same sequence
	// number.
	replayed bool
}

// run executes n operations, up to the first that fails.
func (k *callback) run(n uint32) {
	var status nfs4wire.NFSStat4
	executed := uint32(0)
	for status == nfs4wire.NFS4OK && executed < n && !k.replayed && !k.w.Overflow() {
		op := nfs4wire.CBOpNum(k.d.Uint32())
		status = k.operation(executed, op)
		executed++
	}
	if k.replayed {
		return
	}
	k.w.PatchUint32(k.begin, uint32(status))
	k.w.PatchUint32(k.countAt, executed)
	k.p.keep(k.slot, k.w.Bytes()[k.begin:])
}

// operation executes one operation and writes its result.
func (k *callback) operation(index uint32, op nfs4wire.CBOpNum) nfs4wire.NFSStat4 {
	k.w.Uint32(uint32(op))
	at := k.w.Len()
	k.w.Uint32(0)
	status := nfs4wire.NFS4ErrOpNotInSession
	switch {
	case k.d.Err() != nil:
		status = nfs4wire.NFS4ErrBadXDR
	case op < nfs4wire.OpCBGetattr || op > nfs4wire.OpCBOffload:
		k.w.PatchUint32(at-4, uint32(nfs4wire.OpCBIllegal))
		status = nfs4wire.NFS4ErrOpIllegal
	case op == nfs4wire.OpCBSequence && index > 0:
		status = nfs4wire.NFS4ErrSequencePos
	case op == nfs4wire.OpCBSequence:
		status = k.sequence()
	case k.slot != nil:
		status = k.serve(op)
		if k.d.Err() != nil {
			k.w.Truncate(at + 4)
			status = nfs4wire.NFS4ErrBadXDR
		}
	}
	if !k.replayed {
		k.w.PatchUint32(at, uint32(status))
	}
	return status
}

// serve executes an operation after CB_SEQUENCE. It writes the part of the result that follows
// the status.
func (k *callback) serve(op nfs4wire.CBOpNum) nfs4wire.NFSStat4 {
	hooks := &k.p.session.cfg.Callbacks
	switch {
	case op == nfs4wire.OpCBRecallSlot:
		var args nfs4wire.CBRecallSlot4Args
		if args.Decode(k.d); k.d.Err() == nil {
			k.p.session.recallSlots(args.TargetHighestSlotid)
		}
		return nfs4wire.NFS4OK
	case op == nfs4wire.OpCBRecall && hooks.Recall != nil:
		var args nfs4wire.CBRecall4Args
		if args.Decode(k.d); k.d.Err() != nil {
			return nfs4wire.NFS4ErrBadXDR
		}
		return hooks.Recall(Recall{slices.Clone(Handle(args.FH)), args.Stateid, args.Truncate})
	case op == nfs4wire.OpCBNotifyLock && hooks.NotifyLock != nil:
		var args nfs4wire.CBNotifyLock4Args
		if args.Decode(k.d); k.d.Err() == nil {
			hooks.NotifyLock(slices.Clone(Handle(args.FH)), slices.Clone(args.LockOwner.Owner))
		}
		return nfs4wire.NFS4OK
	case op == nfs4wire.OpCBGetattr && hooks.Attributes != nil:
		var args nfs4wire.CBGetattr4Args
		if args.Decode(k.d); k.d.Err() != nil {
			return nfs4wire.NFS4ErrBadXDR
		}
		attr, status := hooks.Attributes(slices.Clone(Handle(args.FH)), args.AttrRequest)
		if status == nfs4wire.NFS4OK {
			attr.Encode(k.w)
		}
		return status
	}
	return nfs4wire.NFS4ErrNotSupp
}

// sequence executes CB_SEQUENCE: it finds the slot of the callback (RFC 8881 §20.9). If the
// callback is a repetition, it writes the stored reply.
func (k *callback) sequence() nfs4wire.NFSStat4 {
	var args nfs4wire.CBSequence4Args
	if args.Decode(k.d); k.d.Err() != nil {
		return nfs4wire.NFS4ErrBadXDR
	}
	if k.p.session.awaits(&args.ReferringCallLists) {
		return nfs4wire.NFS4ErrDelay
	}
	p := k.p
	p.mu.Lock()
	defer p.mu.Unlock()
	last := uint32(len(p.slots)) - 1
	switch {
	case args.Sessionid != p.id || len(p.slots) == 0:
		return nfs4wire.NFS4ErrBadSession
	case args.Slotid > last:
		return nfs4wire.NFS4ErrBadSlot
	case args.HighestSlotid > last:
		return nfs4wire.NFS4ErrBadHighSlot
	}
	s := &p.slots[args.Slotid]
	switch {
	case s.busy && args.Sequenceid == s.seq:
		return nfs4wire.NFS4ErrDelay
	case s.busy:
		return nfs4wire.NFS4ErrSeqMisordered
	case args.Sequenceid == s.seq && s.reply != nil:
		k.w.Truncate(k.begin)
		k.w.FixedOpaque(s.reply)
		k.replayed = true
		return nfs4wire.NFS4OK
	case args.Sequenceid != s.seq+1:
		return nfs4wire.NFS4ErrSeqMisordered
	}
	s.seq, s.busy = args.Sequenceid, true
	k.slot = s
	(&nfs4wire.CBSequence4ResOK{
		Sessionid: p.id, Sequenceid: s.seq, Slotid: args.Slotid, HighestSlotid: last, TargetHighestSlotid: last,
	}).Encode(k.w)
	return nfs4wire.NFS4OK
}

// keep stores a reply on its slot and frees the slot. s is nil if the callback has no slot.
func (p *callbackService) keep(s *backSlot, reply []byte) {
	if s == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s.busy, s.reply = false, slices.Clone(reply)
}

// awaits reports whether a request that a callback refers to is still unanswered. The callback
// may concern the result of that request (RFC 8881 §2.10.6.3).
func (s *Session) awaits(lists *nfs4wire.CBSequence4ArgsReferringCallLists) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list nfs4wire.ReferringCallList4
	for lists.Next(&list) {
		var call nfs4wire.ReferringCall4
		for list.ReferringCalls.Next(&call) {
			if list.Sessionid == s.slots.session && s.slots.underWay(call.Slotid, call.Sequenceid) {
				return true
			}
		}
	}
	return false
}

// recallSlots stops the use of slots whose ID is above target, and makes the keeper report this
// to the server.
func (s *Session) recallSlots(target uint32) {
	s.mu.Lock()
	s.slots.aim(min(target, s.slots.limit-1))
	s.mu.Unlock()
	s.ask(taskTell)
}

// backContexts is the largest number of RPCSEC_GSS contexts under which a session accepts
// callbacks. They are the contexts of its connections, and of connections that have ended.
const backContexts = 16

// offer returns conn's context as an offer for callbacks, or nil if conn has no context (RFC 8881
// §18.36.3).
func (s *Session) offer(conn *Conn) *nfs4wire.GSSCBHandles4 {
	if conn.secured == nil {
		return nil
	}
	theirs, ours := s.protected.Adopt(conn.secured.client)
	s.mu.Lock()
	s.offered = theirs
	s.mu.Unlock()
	return &nfs4wire.GSSCBHandles4{
		Service: nfs4wire.GSSService(conn.secured.service), HandleFromServer: theirs, HandleFromClient: ours,
	}
}

// offerArgs are the arguments of CREATE_SESSION or BACKCHANNEL_CTL. They list the security flavors
// that the server may use for callbacks: if back is not nil, only RPCSEC_GSS, with the context in
// back; otherwise AUTH_SYS, as user 0, and AUTH_NONE.
type offerArgs struct {
	args interface {
		EncodeHead(w *xdr.Writer) // what precedes the list
		EncodeTail(w *xdr.Writer)
	}
	back *nfs4wire.GSSCBHandles4
}

// Encode writes the arguments to w.
func (a *offerArgs) Encode(w *xdr.Writer) {
	offers := []nfs4wire.CallbackSecParms4{
		{Secflavor: nfs4wire.AuthSys, SysCred: nfs4wire.AuthsysParms{Machinename: []byte("nfsrdmad")}},
		{Secflavor: nfs4wire.AuthNone},
	}
	if a.back != nil {
		offers = []nfs4wire.CallbackSecParms4{{Secflavor: nfs4wire.RPCSECGSS, GSSHandles: *a.back}}
	}
	a.args.EncodeHead(w)
	w.Uint32(uint32(len(offers)))
	for i := range offers {
		offers[i].Encode(w)
	}
	a.args.EncodeTail(w)
}

// offerAgain offers the server another context for callbacks, if the one offered before has ended
// (RFC 8881 §18.33). It does not wait for the reply. If the server refuses, the keeper's next
// call of offerAgain makes another offer.
func (s *Session) offerAgain() {
	conn := s.unoffered()
	if conn == nil {
		return
	}
	args := &offerArgs{&nfs4wire.BackchannelCtl4Args{CBProgram: callbackProgram}, s.offer(conn)}
	s.Start(&Compound{
		Ops: []Op{{Number: nfs4wire.OpBackchannelCtl, Args: args}},
		Done: func(c *Compound) {
			if c.Err == nil {
				return
			}
			s.mu.Lock()
			if bytes.Equal(s.offered, args.back.HandleFromServer) {
				s.offered = nil
			}
			s.mu.Unlock()
		},
	})
}

// unoffered returns a connection whose RPCSEC_GSS context s should offer for callbacks. It returns
// nil if a connection still has the context that was offered last, or if no connection has a context.
func (s *Session) unoffered() (found *Conn) {
	s.mu.Lock()
	offered := s.offered
	s.mu.Unlock()
	for _, c := range s.conns(nil) {
		switch {
		case c.secured == nil:
		case bytes.Equal(c.secured.client.Handle(), offered):
			return nil
		default:
			found = c
		}
	}
	return found
}
