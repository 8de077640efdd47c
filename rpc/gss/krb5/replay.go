package krb5

import (
	"crypto/sha256"
	"sync"
	"time"
)

// maxReplays is the largest number of authenticators in replayed.
const maxReplays = 1 << 16

// replayed stores accepted authenticators, so that none is accepted twice (RFC 4120 §3.2.3). It
// stores each for at least twice the allowed skew, because an authenticator's time may be one skew
// in the future. If more than maxReplays/2 come within that time, it may delete an authenticator
// earlier. That does little harm: only clients with a ticket can send so many, and contexts with
// the acceptor's subkey need no protection against repeated authenticators.
//
// The two maps are generations. If the map young has maxReplays/2 authenticators, or was created
// longer ago than twice the skew, it replaces the map old.
type replayed struct {
	mu         sync.Mutex
	young, old map[[sha256.Size]byte]struct{}
	since      time.Time // when young was created
}

// storeNew stores an encrypted authenticator. It returns false if the authenticator was already stored.
func (r *replayed) storeNew(authenticator []byte, now time.Time, skew time.Duration) bool {
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
