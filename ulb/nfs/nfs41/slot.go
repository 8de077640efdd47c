package nfs41

import (
	"sync"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A slot remembers the latest request that came in it (RFC 8881 §2.10.6.1). As a
// compound's Session it is the request that runs.
type slot struct {
	session *Session
	index   uint32

	// mu guards what follows.
	mu       sync.Mutex
	sequence uint32
	used     bool   // a request came in it
	busy     bool   // its request is under way
	digest   uint64 // of that request
	kept     *rpc.Kept
	asked    bool // the client asked that kept be kept
	// shared: a reply may be sending kept still, so that it may not be written again.
	shared bool
	// charge is what the slot has taken of the memory for replies, in bytes.
	charge int
	ended  bool

	// These belong to the request that runs.
	cache bool      // its reply is to be kept
	once  bool      // it did something that must not be done twice
	told  uint32    // the highest slot that the client is to use, by its answer
	spare *rpc.Kept // memory that may be used again
}

// retry is the Session of a compound that was executed before, and whose reply was not
// kept.
type retry struct{}

var uncached = new(retry)

func (l *slot) running() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.busy
}

// Left implements nfs4.Limiter.
func (l *slot) Left(k *nfs4.Compound) (n int, or nfs4.Status) {
	fore, size := &l.session.fore, k.W.StreamLen()
	if l.cache && fore.MaxresponsesizeCached < fore.Maxresponsesize {
		return fore.maxCached() - size, wire.NFS4ErrRepTooBigToCache
	}
	return int(fore.Maxresponsesize) - size, wire.NFS4ErrRepTooBig
}

// Limits that keep what one slot has.
const (
	// maxSpare is the most memory that a slot keeps for its next reply.
	maxSpare = 2 << 10
	// maxUnasked is the largest reply that is kept although the client did not ask for
	// it, because something was done that must not be done twice.
	maxUnasked = 2 << 10
)

// finish keeps what the request came to, and frees the slot for the next.
func (l *slot) finish(k *nfs4.Compound) {
	// Nobody else touches these as long as the slot is busy.
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
	l.session.minor.state.Renew(l.session.client.Client)
	l.mu.Lock()
	l.kept, l.asked, l.shared = kept, l.cache, false
	l.busy = false
	l.account(size)
	l.mu.Unlock()
}

// keeps says whether the reply is to be kept, and can be.
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

// account makes n the memory that the slot has taken. The first slot's was set aside.
// l.mu is held.
func (l *slot) account(n int) {
	if l.index == 0 || l.ended {
		return
	}
	l.session.minor.cache.account(l.session.share, int64(n-l.charge))
	l.session.held.Add(int64(n - l.charge))
	l.charge = n
}

// drop forgets the reply that is kept, unless a request is under way; one that the client asked
// for with asked alone.
func (l *slot) drop(asked bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.busy && l.kept != nil && (asked || !l.asked) {
		l.kept, l.shared = nil, false
		l.account(0)
	}
}

// end gives the memory back.
func (l *slot) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.account(0)
	l.ended, l.kept = true, nil
}
