package krb5

import (
	"crypto/sha256"
	"sync"
	"time"
)

// maxReplays is the largest number of authenticators remembered, over both generations.
const maxReplays = 1 << 16

// replayed remembers accepted authenticators, so that none is accepted twice (RFC 4120 §3.2.3). It
// remembers each for twice the allowed skew, because an authenticator's time may be one skew in
// the future. If more than maxReplays come within that time, it forgets the older half. Only
// callers with a ticket get that far, and contexts with the acceptor's subkey are safe without it.
type replayed struct {
	mu         sync.Mutex
	young, old map[[sha256.Size]byte]struct{}
	since      time.Time // start of the younger generation
}

// take returns false if the authenticator, in its encrypted form, was accepted before.
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
