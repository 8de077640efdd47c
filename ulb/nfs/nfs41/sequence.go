package nfs41

import (
	"hash/maphash"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// sequence is SEQUENCE (RFC 8881 §18.46). It changes nothing before all was checked.
func (m *Minor) sequence(k *nfs4.Compound) nfs4.Status {
	var args wire.Sequence4Args
	args.Decode(k.Args)
	if !k.Decoded() {
		return wire.NFS4ErrBadXDR
	}
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
	if st := l.accept(k, &args); st != wire.NFS4OK {
		return st
	}
	if k.Session == l {
		// The client has read what the slot's last answer told it, and uses no more slots.
		if args.HighestSlotid <= l.told {
			s.retire(l.told)
		}
		l.told = target
	}
	k.Client = s.client.Client
	res.Encode(k.W)
	return wire.NFS4OK
}

// retire drops the replies of the slots beyond the highest that the client uses: it has got them
// all (RFC 8881 §2.10.6.1).
func (s *Session) retire(highest uint32) {
	for i := int(highest) + 1; i < len(s.slots); i++ {
		if l := s.slots[i].Load(); l != nil {
			l.drop(true)
		}
	}
}

// requestSize is how long a call is, with what travelled beside the message.
func requestSize(c *rpc.Call) int {
	n := c.MessageLen
	for _, p := range c.Placed {
		n += int(p.Length)
	}
	return n
}

// admits says whether a connection may carry requests of the session. Where the client
// did not ask for protection, the request itself binds it (RFC 8881 §18.34.3).
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

// slot is a slot of the session, made where it was not used before.
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
		l.end() // which the session's end may not have seen
	}
	return l
}

// accept makes a new request the slot's own, or finds out about one that came before.
func (l *slot) accept(k *nfs4.Compound, args *wire.Sequence4Args) nfs4.Status {
	digest := digestOf(k)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch args.Sequenceid - l.sequence {
	case 0:
		return l.again(k, digest)
	case 1:
		return l.begin(k, args, digest)
	}
	return wire.NFS4ErrSeqMisordered
}

// again answers a request that has come before.
func (l *slot) again(k *nfs4.Compound, digest uint64) nfs4.Status {
	switch {
	case !l.used:
		return wire.NFS4ErrSeqMisordered
	case l.busy:
		return wire.NFS4ErrDelay
	case l.digest != digest:
		return wire.NFS4ErrSeqFalseRetry
	}
	l.session.minor.state.Renew(l.session.client.Client)
	if l.kept != nil {
		l.shared = true
		k.Replay = l.kept
		return nfs4.Replayed
	}
	k.Session = uncached
	return wire.NFS4OK
}

// begin begins a new request. Its client's lease cannot run out while it is under way, and
// is renewed when it has ended: the clock is read once.
func (l *slot) begin(k *nfs4.Compound, args *wire.Sequence4Args, digest uint64) nfs4.Status {
	if l.busy {
		return wire.NFS4ErrSeqMisordered
	}
	if st := l.carries(k, args.Cachethis); st != wire.NFS4OK {
		return st
	}
	// Those who remove a client look at busy after they have said that it dies.
	l.busy = true
	if l.ended || l.session.client.Dying() {
		l.busy = false
		return wire.NFS4ErrDelay
	}
	l.sequence, l.used, l.digest = args.Sequenceid, true, digest
	l.cache, l.once = args.Cachethis, false
	l.spare = l.kept
	if l.shared || l.spare != nil && l.spare.Size() > maxSpare {
		l.spare = nil
	}
	l.kept, l.shared = nil, false
	k.Session = l
	return wire.NFS4OK
}

// carries says whether the reply can be carried back with SEQUENCE's own result and what
// follows it at least, and be kept where that is asked for: a SEQUENCE that fails when the
// slot has changed would leave the slot useless.
func (l *slot) carries(k *nfs4.Compound, cache bool) nfs4.Status {
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

// digested is how much of a request tells it from others, in bytes.
const digested = 1 << 10

// identity is what of a request goes into its digest.
type identity struct {
	arguments, principal uint64
	length, operations   int
	flavor               rpc.Flavor
	gss                  rpc.GSSService
	uid, gid             uint32
}

// digestOf tells a request from others under the same sequence: by its operations behind
// SEQUENCE, of which the start is looked at, by its caller, and by the protection that the
// reply gets: what is kept of a sealed reply is not told in clear.
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
