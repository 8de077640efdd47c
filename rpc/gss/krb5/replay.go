package krb5

import (
	"crypto/sha256"
	"sync"
	"time"
)

// maxReplays is how many authenticators are remembered, over both generations.
const maxReplays = 1 << 16

// replayed remembers authenticators that were taken, so that none is taken again
// (RFC 4120 §3.2.3). Each is remembered for twice the allowed difference of the
// clocks, as its time may be that far in the future. Of too many within that time the
// oldest half is forgotten: only callers with a ticket get that far, and the
// acceptor's subkey protects contexts where this does not.
type replayed struct {
	mu         sync.Mutex
	young, old map[[sha256.Size]byte]struct{}
	since      time.Time // when young was begun
}

// take is false where the authenticator, in its encrypted form, was taken before.
func (r *replayed) take(authenticator []byte, now time.Time, skew time.Duration) bool {
	id := sha256.Sum256(authenticator)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.young == nil || len(r.young) >= maxReplays/2 || now.Sub(r.since) > 2*skew {
		r.old, r.young, r.since = r.young, make(map[[sha256.Size]byte]struct{}), now
	}
	_, before := r.young[id]
	_, longBefore := r.old[id]
	r.young[id] = struct{}{}
	return !before && !longBefore
}
