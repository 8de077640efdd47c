package nfs40

import (
	"hash/maphash"
	"sync"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Counts implements nfs4.Sequencer. An operation uses up its seqid even if it fails: after most errors, NFS4ERR_DELAY
// included, the client goes on to the next seqid (RFC 7530 §9.1.7 lists the other errors).
func (*Minor) Counts(n wire.OpNum, s nfs4.Status) bool {
	switch n {
	case wire.OpOpen, wire.OpOpenConfirm, wire.OpOpenDowngrade, wire.OpClose, wire.OpLock, wire.OpLocku:
		return counts(s)
	}
	return false
}

// counts reports whether the client continues with the next seqid after status s.
func counts(s nfs4.Status) bool {
	switch s {
	case wire.NFS4ErrStaleClientID, wire.NFS4ErrStaleStateID, wire.NFS4ErrBadStateID, wire.NFS4ErrBadSeqID,
		wire.NFS4ErrBadXDR, wire.NFS4ErrResource, wire.NFS4ErrNoFileHandle, wire.NFS4ErrMoved:
		return false
	}
	return s >= 0
}

// A request is what a repeated request of an owner has in common with the first one. Another request may carry the same
// seqid by mistake.
type request struct {
	operation wire.OpNum
	by        state.Principal
	// export and file are the current file handle: a reply also makes a file handle the current one, so it is only
	// for callers that may use this export.
	export    uint32
	file      vfs.Handle
	arguments uint64 // a hash
}

var seed = maphash.MakeSeed()

// requestOf returns the running operation as a request, after its arguments were decoded.
func requestOf(k *nfs4.Compound) request {
	return request{k.Number, k.Principal(), k.Current.Export.ID, k.Current.Handle, maphash.Bytes(seed, k.Arguments())}
}

// A reply is the reply to the last request of an owner (RFC 7530 §9.1.9). It is immutable.
type reply struct {
	to     request
	status nfs4.Status
	body   []byte // the encoded result after the status
	// opened is the current file handle after an OPEN. It is not set after other operations, which keep it.
	opened nfs4.Object
}

// again writes the reply to a repeated request.
func (r *reply) again(k *nfs4.Compound) nfs4.Status {
	k.W.FixedOpaque(r.body)
	if r.status != wire.NFS4OK && len(r.body) > 0 {
		k.KeepBody()
	}
	if r.opened.IsSet() {
		k.SetCurrent(r.opened)
	}
	return r.status
}

// An order is the result of sequence.begin.
type order uint8

const (
	// proceed: the request is the owner's next one. The caller executes it, then calls end.
	proceed order = iota
	// repeated: the request repeats the owner's last one, and gets the same reply.
	repeated
	// misordered: the request is neither the next nor the last one, and gets NFS4ERR_BAD_SEQID.
	misordered
	// wait: an earlier request of the owner still runs. After its end (afterTurn) the caller tries again.
	wait
)

// A sequence orders the numbered requests of one owner, which keeps it (state.Owner.Kept). The server executes one at a
// time.
type sequence struct {
	owner *state.Owner

	mu    sync.Mutex
	begun bool // there was a request: seqid is the number of the last one, last its reply
	seqid uint32
	last  *reply
	// abandoned is the owner's Abandoned when last was stored. If the number is larger now, last is void.
	abandoned uint32
	// busy is true while the server executes a request. waiting are the functions to call afterwards.
	busy    bool
	waiting []func()
}

func sequenceOf(o *state.Owner) *sequence {
	return o.Kept(func() any { return &sequence{owner: o} }).(*sequence)
}

// precedes reports whether seqid is the next number. After the largest number comes 1 (RFC 7530
// §9.1.3), or 0 from clients that simply count on.
func (q *sequence) precedes(seqid uint32) bool {
	next := q.seqid + 1
	return seqid == next || next == 0 && seqid == 1
}

// begin decides what to do with the request r, whose sequence number is seqid. With repeated it also returns the reply
// to the earlier request.
func (q *sequence) begin(r *request, seqid uint32) (order, *reply) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.busy:
		return wait, nil
	case !q.begun:
	case seqid == q.seqid && q.last != nil && q.abandoned == q.owner.Abandoned() && q.last.to == *r:
		return repeated, q.last
	case r.operation == wire.OpOpen && !q.owner.Confirmed():
		// An unconfirmed owner starts again, with any number (RFC 7530 §16.18.5).
	case !q.precedes(seqid):
		return misordered, nil
	}
	q.busy = true
	q.owner.Works(true)
	return proceed, nil
}

// afterTurn calls again once, when the current request has ended; perhaps before afterTurn returns.
func (q *sequence) afterTurn(again func()) {
	q.mu.Lock()
	if q.busy {
		q.waiting = append(q.waiting, again)
		again = func() {}
	}
	q.mu.Unlock()
	again()
}

// end ends a request for which begin returned proceed, and stores the request's sequence number and reply. r is nil if
// the request does not count: the client then sends its next request with the same sequence number (RFC 7530 §9.1.7).
func (q *sequence) end(seqid uint32, r *reply) {
	q.mu.Lock()
	q.busy = false
	q.owner.Works(false)
	waiting := q.waiting
	q.waiting = nil
	if r != nil {
		q.store(seqid, r)
	}
	q.mu.Unlock()
	for _, again := range waiting {
		again()
	}
}

// store stores the number and the reply of the last request. The caller holds q.mu.
func (q *sequence) store(seqid uint32, r *reply) {
	q.begun, q.seqid, q.last, q.abandoned = true, seqid, r, q.owner.Abandoned()
}

// InTurn implements nfs4.Sequencer.
func (m *Minor) InTurn(k *nfs4.Compound, o *state.Owner, seqid uint32, run func() nfs4.Status) (s nfs4.Status) {
	q, r := sequenceOf(o), requestOf(k)
	switch order, last := q.begin(&r, seqid); order {
	case repeated:
		return last.again(k)
	case misordered:
		if k.Number == wire.OpOpenConfirm {
			m.state.Abandon(o)
		}
		return wire.NFS4ErrBadSeqID
	case wait:
		lane := k.FS().Lane()
		k.Call.WaitsFor(rpc.WaitTurn)
		return k.WaitFor(func() {
			q.afterTurn(func() { k.Resume(lane) })
		})
	}
	at := k.W.Len()
	var to *reply
	// Deferred, so that an operation that panics does not block its owner for ever.
	defer func() { q.end(seqid, to) }()
	if s = run(); counts(s) {
		to = &reply{to: r, status: s, body: k.Result(at, s)}
		if s == wire.NFS4OK && k.Number == wire.OpOpen {
			to.opened = k.Current
		}
	}
	return s
}

// Introduce implements nfs4.Sequencer. The LOCK with which an open-owner introduces the lock-owner o counts for both (RFC
// 7530 §9.1.7). If o holds no locks, every number is accepted: clients reuse the names of lock-owners, and the
// RELEASE_LOCKOWNER for the former lock-owner of this name may still be on its way.
func (m *Minor) Introduce(o *state.Owner, seqid uint32, lock func() nfs4.Status) nfs4.Status {
	q := sequenceOf(o)
	q.mu.Lock()
	follows := !q.begun || q.precedes(seqid)
	q.mu.Unlock()
	if !follows && m.state.HoldsRanges(o) {
		return wire.NFS4ErrBadSeqID
	}
	s := lock()
	if counts(s) {
		q.mu.Lock()
		q.store(seqid, nil)
		q.mu.Unlock()
	}
	return s
}

// openConfirm is OPEN_CONFIRM (RFC 7530 §16.18).
func (m *Minor) openConfirm(k *nfs4.Compound, args *wire.OpenConfirm4Args) nfs4.Status {
	return k.OnState(&args.OpenStateid, state.KindOpen, args.Seqid, func(r *state.Ref) (state.StateID, state.Verdict) {
		return m.state.ConfirmOpen(r)
	})
}

// releaseLockOwner is RELEASE_LOCKOWNER (RFC 7530 §16.37).
func (m *Minor) releaseLockOwner(k *nfs4.Compound, args *wire.ReleaseLockOwner4Args) nfs4.Status {
	c, s := k.ClientOf(args.LockOwner.Clientid)
	if s != wire.NFS4OK {
		return s
	}
	return k.Answer(m.state.ReleaseLockOwner(c, args.LockOwner.Owner))
}
