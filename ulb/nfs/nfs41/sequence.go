package nfs41

import (
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// Before implements nfs4.Minor. It checks the position of an operation in the compound (RFC 8881
// §2.10.2.1, §18.46.3): the first one has to be SEQUENCE, or one that may be alone (see first).
func (m *Minor) Before(k *nfs4.Compound, op *nfs4.Operation) nfs4.Status {
	if k.Index == 0 {
		return first(k, op.Number)
	}
	switch run := k.Session.(type) {
	case *slot:
		if k.Call.Conn.Gone() && len(*run.session.conns.Load()) == 0 && mayWait(op.Number) {
			// The client has no connection left, so the compound ends here. The client reconnects,
			// gets the reply so far from the slot, and sends the other operations again.
			return wire.NFS4ErrDelay
		}
		run.once = run.once || op.Once
		if op.Number == wire.OpDelegpurge && !run.session.client.protect.permits(&k.Call.Cred, op.Number) {
			return wire.NFS4ErrWrongCred
		}
	case *retry:
		return wire.NFS4ErrRetryUncachedRep
	}
	switch op.Number {
	case wire.OpSequence:
		return wire.NFS4ErrSequencePos
	case wire.OpBindConnToSession:
		return wire.NFS4ErrNotOnlyOp
	}
	return wire.NFS4OK
}

// first checks that an operation may be the first of a compound: SEQUENCE, or an operation that
// needs no session and is alone in the compound.
func first(k *nfs4.Compound, op wire.OpNum) nfs4.Status {
	switch op {
	case wire.OpSequence:
		return wire.NFS4OK
	case wire.OpExchangeID, wire.OpCreateSession, wire.OpDestroySession, wire.OpDestroyClientID, wire.OpBindConnToSession:
		if k.Count > 1 {
			return wire.NFS4ErrNotOnlyOp
		}
		return wire.NFS4OK
	}
	return wire.NFS4ErrOpNotInSession
}

// mayWait reports whether a compound may end with NFS4ERR_DELAY at an operation. GETFH, SAVEFH and
// RESTOREFH do not have that error (RFC 8881 §15.2). GETATTR and ACCESS often follow a creation: if the
// client then repeated the compound, it would fail because the created thing exists. All five run without
// waiting.
func mayWait(op wire.OpNum) bool {
	switch op {
	case wire.OpGetFH, wire.OpSaveFH, wire.OpRestoreFH, wire.OpGetattr, wire.OpAccess:
		return false
	}
	return true
}

// sequence is SEQUENCE (RFC 8881 §18.46). It completes all checks before it changes anything.
func (m *Minor) sequence(k *nfs4.Compound, args *wire.Sequence4Args) nfs4.Status {
	s := m.sessions.find(&args.Sessionid)
	if s == nil {
		return wire.NFS4ErrBadSession
	}
	switch {
	case requestSize(k.Call) > int(s.fore.Maxrequestsize):
		return wire.NFS4ErrReqTooBig
	case k.Count > int(s.fore.Maxoperations):
		return wire.NFS4ErrTooManyOps
	case !s.admits(k.Call.Conn):
		return wire.NFS4ErrConnNotBoundToSession
	case args.Slotid >= s.fore.Maxrequests:
		return wire.NFS4ErrBadSlot
	case args.HighestSlotid >= s.fore.Maxrequests:
		return wire.NFS4ErrBadHighSlot
	}
	l := s.slot(args.Slotid)
	target := uint32(m.cache.slots(s.share, len(s.slots)) - 1)
	res := wire.Sequence4ResOK{
		Sessionid: s.ID, Sequenceid: args.Sequenceid, Slotid: args.Slotid,
		HighestSlotid: s.fore.Maxrequests - 1, TargetHighestSlotid: target,
		StatusFlags: s.status(),
	}
	if args.Cachethis && args.Slotid > 0 && !m.cache.holds(s.share, 0, s.fore.maxCached()) {
		m.relieve(s.share)
	}
	if st := l.accept(k, args); st != wire.NFS4OK {
		return st
	}
	if k.Session == l {
		// This is a new request in the slot, so the client has received the last reply there, with the
		// target l.told. If it uses no slot above that target, it obeys the target.
		if args.HighestSlotid <= l.told {
			s.retire(l.told, l.toldIn)
		}
		if l.told = target; target < s.fore.Maxrequests-1 {
			l.toldIn = s.turn.Add(1)
		}
	}
	k.Client = s.owner
	res.Encode(k.W)
	return wire.NFS4OK
}

// requestSize returns the length of a call, in bytes. It includes the data that traveled outside
// the message, in Read chunks.
func requestSize(c *rpc.Call) int {
	n := c.MessageLen
	for _, p := range c.Placed {
		n += int(p.Length)
	}
	return n
}

// admits reports whether a connection may carry requests of the session: any connection, if the client did
// not ask for protection (see binds). The request itself then binds it (RFC 8881 §18.34.3), as long as
// fewer than maxConns are bound.
func (s *Session) admits(c *rpc.Conn) bool {
	if b := s.binding(c); b != nil && b.fore {
		return true
	}
	if s.client.protect.binds() {
		return false
	}
	if len(*s.conns.Load()) < maxConns {
		s.bind(c, true, false)
	}
	return true
}

// slot returns slot i of the session. It makes the slot at its first use.
func (s *Session) slot(i uint32) *slot {
	p := &s.slots[i]
	if l := p.Load(); l != nil {
		return l
	}
	l := &slot{session: s, index: i, told: s.fore.Maxrequests - 1}
	if !p.CompareAndSwap(nil, l) {
		return p.Load()
	}
	if s.ended.Load() {
		l.close() // Session.end may have missed the new slot
	}
	return l
}

// noticed returns the status flags for what the state manager has to tell a client.
func noticed(n state.Notices) (flags uint32) {
	if n&state.NoticeRevoked != 0 {
		flags = wire.Seq4StatusAdminStateRevoked
	}
	if n&state.NoticeReclaim != 0 {
		flags |= wire.Seq4StatusRestartReclaimNeeded
	}
	return flags
}

// status returns the status flags of a SEQUENCE result for the session and its client.
func (s *Session) status() uint32 {
	flags := noticed(s.minor.state.Notices(s.owner))
	if s.fault.Load() {
		flags |= wire.Seq4StatusBackchannelFault
	}
	if sec := s.security.Load(); len(sec.contexts) > 0 {
		flags |= sec.status(time.Now(), s.minor.state.Lease())
	}
	if s.wanted.Load() && !s.connected() {
		flags |= wire.Seq4StatusCBPathDownSession
		if !s.client.anySession((*Session).connected) {
			flags |= wire.Seq4StatusCBPathDown
		}
	}
	return flags
}

// connected reports whether the session has a connection to call the client over, and the client
// answers there (neither down nor fault is set).
func (s *Session) connected() bool {
	if s.down.Load() || s.fault.Load() {
		return false
	}
	return slices.ContainsFunc(*s.conns.Load(), func(b *binding) bool { return b.back && b.conn.Caller() != nil })
}

// A slot holds the sequence number and the reply of the latest request in it (RFC 8881 §2.10.6.1).
// Compound.Session of a running request is the request's slot.
type slot struct {
	session *Session
	index   uint32

	// mu guards the fields below.
	mu       sync.Mutex
	sequence uint32
	used     bool   // the slot has had a request
	busy     bool   // the latest request is running
	digest   uint64 // digest of the latest request, from digestOf
	turn     uint64 // Session.turn when the latest request came
	kept     *rpc.Kept
	asked    bool // the client asked the server to cache the reply in kept
	// shared is true if the server has answered a repeated request with kept. A transport may still
	// be sending that answer, so the memory of kept must not be reused.
	shared bool
	// charge is the memory for replies that the slot uses, in bytes.
	charge int
	ended  bool

	// Only the goroutine that executes the running request uses the fields below.
	cache bool   // the client asked the server to cache the reply
	once  bool   // the request has run an operation that must not run twice
	told  uint32 // highest slot for the client to use, as the last SEQUENCE reply in this slot said
	// toldIn is the value of Session.turn after the SEQUENCE reply that set told. It is set only if
	// told is not the session's last slot.
	toldIn uint64
	spare  *rpc.Kept // memory of an earlier reply, to be reused
}

// accept begins a new request in the slot, or answers a repeated one.
func (l *slot) accept(k *nfs4.Compound, args *wire.Sequence4Args) nfs4.Status {
	digest := digestOf(k)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch args.Sequenceid - l.sequence {
	case 0:
		return l.againLocked(k, digest)
	case 1:
		return l.startRequestLocked(k, args, digest)
	}
	return wire.NFS4ErrSeqMisordered
}

// againLocked handles a request with the sequence number of the slot's latest one. While that is running,
// the client gets NFS4ERR_DELAY. The same request gets the stored reply or, without one,
// NFS4ERR_RETRY_UNCACHED_REP. A different request gets NFS4ERR_SEQ_FALSE_RETRY.
func (l *slot) againLocked(k *nfs4.Compound, digest uint64) nfs4.Status {
	switch {
	case !l.used:
		return wire.NFS4ErrSeqMisordered
	case l.busy:
		return wire.NFS4ErrDelay
	case l.digest != digest:
		return wire.NFS4ErrSeqFalseRetry
	}
	l.session.minor.state.Renew(l.session.owner)
	if l.kept != nil {
		l.shared = true
		k.Replay = l.kept
		return nfs4.Replayed
	}
	k.Session = uncached
	return wire.NFS4OK
}

// startRequestLocked begins a new request. finish ends it.
func (l *slot) startRequestLocked(k *nfs4.Compound, args *wire.Sequence4Args, digest uint64) nfs4.Status {
	if l.busy {
		return wire.NFS4ErrSeqMisordered
	}
	if st := l.carriesLocked(k, args.Cachethis); st != wire.NFS4OK {
		return st
	}
	if l.ended || !l.session.owner.BeginRequest() {
		return wire.NFS4ErrDelay
	}
	l.busy = true
	l.sequence, l.used, l.digest = args.Sequenceid, true, digest
	l.cache, l.once = args.Cachethis, false
	l.turn = l.session.turn.Load()
	l.spare = l.kept
	if l.shared || l.spare != nil && l.spare.Size() > maxSpare {
		l.spare = nil
	}
	l.kept, l.shared = nil, false
	k.Session = l
	return wire.NFS4OK
}

// carriesLocked checks that the reply has room for the result of SEQUENCE and the head of the next
// result, and that the slot can store the reply if the client asks for that (cache). If SEQUENCE
// failed after the slot had changed, the slot would be useless.
func (l *slot) carriesLocked(k *nfs4.Compound, cache bool) nfs4.Status {
	result := wire.Sequence4ResOKMaxSize + k.Tail()
	fore, size := &l.session.fore, k.W.StreamLen()+result
	switch {
	case size > int(fore.Maxresponsesize) || k.Call.WordsRoom(k.W) < result:
		return wire.NFS4ErrRepTooBig
	case !cache:
		return wire.NFS4OK
	case size > fore.maxCached():
		return wire.NFS4ErrRepTooBigToCache
	case l.index > 0 && !l.session.minor.cache.holds(l.session.share, l.charge, fore.maxCached()):
		return wire.NFS4ErrDelay
	}
	return wire.NFS4OK
}

var seed = maphash.MakeSeed()

// digested is the maximum number of bytes of a request that enter its digest.
const digested = 1 << 10

// identity holds the properties of a request that enter its digest.
type identity struct {
	arguments, principal uint64
	length, operations   int
	flavor               rpc.Flavor
	gss                  rpc.GSSService
	uid, gid             uint32
}

// digestOf returns a digest that distinguishes a request from others with the same sequence number. It
// covers the first bytes of the operations after SEQUENCE, their length and number, the caller, and the
// protection, because the server must not send a reply in clear that it stored for a request with privacy.
func digestOf(k *nfs4.Compound) uint64 {
	rest, c := k.Args.Rest(), &k.Call.Cred
	id := identity{
		arguments: maphash.Bytes(seed, rest[:min(len(rest), digested)]),
		length:    len(rest), operations: k.Count, flavor: c.Flavor, gss: c.GSS, uid: c.UID, gid: c.GID,
	}
	if c.Principal != "" {
		id.principal, id.uid, id.gid = maphash.String(seed, c.Principal), 0, 0
	}
	return maphash.Comparable(seed, id)
}

// Left implements nfs4.Limiter.
func (l *slot) Left(k *nfs4.Compound) (n int, or nfs4.Status) {
	fore, size := &l.session.fore, k.W.StreamLen()
	if l.cache && fore.MaxresponsesizeCached < fore.Maxresponsesize {
		return fore.maxCached() - size, wire.NFS4ErrRepTooBigToCache
	}
	return int(fore.Maxresponsesize) - size, wire.NFS4ErrRepTooBig
}

// After implements nfs4.Minor.
func (m *Minor) After(k *nfs4.Compound) {
	if run, ok := k.Session.(*slot); ok {
		run.finish(k)
	}
}

// finish stores the reply, if the slot keeps it, and frees the slot for the next request.
func (l *slot) finish(k *nfs4.Compound) {
	// While the slot is busy, only this goroutine uses l.spare, l.cache and l.once.
	kept, size := l.spare, 0
	l.spare = nil
	if l.keeps(k) {
		if kept == nil {
			kept = new(rpc.Kept)
		}
		out := rpc.Done
		if k.Status != wire.NFS4OK {
			out = rpc.Failed
		}
		kept.Keep(k.Call, k.W, out)
		size = kept.Size()
	} else {
		kept = nil
	}
	l.session.minor.state.EndRequest(l.session.owner)
	l.mu.Lock()
	l.kept, l.asked, l.shared = kept, l.cache, false
	l.busy = false
	l.accountLocked(size)
	l.mu.Unlock()
}

// keeps reports whether the slot stores the reply, which must be complete: if the client asked the server
// to cache it, or if it is small (maxUnasked), the compound ran an operation that must not run twice
// (once), and there is enough memory for replies (ample) or this is slot 0.
func (l *slot) keeps(k *nfs4.Compound) bool {
	switch {
	case k.Status < 0, k.W.Overflow():
		return false
	case l.cache:
		return true
	}
	return l.once && k.W.StreamLen() <= min(maxUnasked, l.session.fore.maxCached()) &&
		(l.index == 0 || l.session.minor.cache.ample(l.session.share))
}

// Limits of the memory of one slot, in bytes.
const (
	// maxSpare is the maximum memory that a slot keeps for its next reply.
	maxSpare = 2 << 10
	// maxUnasked is the size of the largest reply that a slot keeps although the client did not ask
	// the server to cache it. The slot keeps such a reply if the compound ran an operation that
	// must not run twice.
	maxUnasked = 2 << 10
)

// accountLocked sets the memory that the slot uses to n bytes. The memory of slot 0 is set aside
// when the session is created, so accountLocked does not count it.
func (l *slot) accountLocked(n int) {
	if l.index == 0 || l.ended || n == l.charge {
		return // for most requests: all processors share the counters
	}
	l.session.minor.cache.account(l.session.share, int64(n-l.charge))
	l.session.held.Add(int64(n - l.charge))
	l.charge = n
}

// retire drops the replies of the slots above highest, if their requests came before turn
// (Session.turn). The client no longer uses these slots and has received the replies (RFC 8881
// §2.10.6.1). The replies to later requests stay, because such a request may have overtaken the
// request in which the client reported its highest slot.
func (s *Session) retire(highest uint32, turn uint64) {
	for i := int(highest) + 1; i < len(s.slots); i++ {
		if l := s.slots[i].Load(); l != nil {
			l.drop(turn)
		}
	}
}

// drop forgets the stored reply, unless a request is running. turn is a value of Session.turn. If
// the client asked the server to cache the reply, drop forgets it only if its request came before
// Session.turn had this value.
func (l *slot) drop(turn uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.busy && l.kept != nil && (l.turn < turn || !l.asked) {
		l.kept, l.shared = nil, false
		l.accountLocked(0)
	}
}

// close gives the slot's memory back. accept then begins no new request in the slot.
func (l *slot) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accountLocked(0)
	l.ended, l.kept = true, nil
}

// retry is the Compound.Session of a repeated request whose reply the slot did not keep.
type retry struct{}

var uncached = new(retry)

// SessionOf returns the session of the compound k, or nil.
func SessionOf(k *nfs4.Compound) *Session {
	if run, ok := k.Session.(*slot); ok {
		return run.session
	}
	return nil
}
