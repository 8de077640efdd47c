package nfs41

import (
	"sync"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

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

// retry is the Compound.Session of a repeated request whose reply the slot did not keep.
type retry struct{}

var uncached = new(retry)

// Left implements nfs4.Limiter.
func (l *slot) Left(k *nfs4.Compound) (n int, or nfs4.Status) {
	fore, size := &l.session.fore, k.W.StreamLen()
	if l.cache && fore.MaxresponsesizeCached < fore.Maxresponsesize {
		return fore.maxCached() - size, wire.NFS4ErrRepTooBigToCache
	}
	return int(fore.Maxresponsesize) - size, wire.NFS4ErrRepTooBig
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
	l.account(size)
	l.mu.Unlock()
}

// keeps reports whether the slot stores the reply. It never stores an incomplete reply. It stores a
// reply that the client asked the server to cache. It also stores a small reply (maxUnasked) of a
// compound that ran an operation that must not run twice (once), if there is enough memory for
// replies (ample) or this is slot 0.
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

// account sets the memory that the slot uses to n bytes. The memory of slot 0 is set aside when the
// session is created, so account does not count it. l.mu is held.
func (l *slot) account(n int) {
	if l.index == 0 || l.ended || n == l.charge {
		return // for most requests: all processors share the counters
	}
	l.session.minor.cache.account(l.session.share, int64(n-l.charge))
	l.session.held.Add(int64(n - l.charge))
	l.charge = n
}

// drop forgets the stored reply, unless a request is running. turn is a value of Session.turn. If
// the client asked the server to cache the reply, drop forgets it only if its request came before
// Session.turn had this value.
func (l *slot) drop(turn uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.busy && l.kept != nil && (l.turn < turn || !l.asked) {
		l.kept, l.shared = nil, false
		l.account(0)
	}
}

// close gives the slot's memory back. accept then begins no new request in the slot.
func (l *slot) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.account(0)
	l.ended, l.kept = true, nil
}
