package identity

import (
	"net/netip"
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/census"
)

// Bounds of the look-ups of a Map that clients cause. A look-up reads files, and may start a
// process. A client can name users and groups without end, and it can give files to
// numbers that have no name; what was looked up lately does not count.
const (
	// nameBurst is how many names one address may have looked up at once, and nameEvery how
	// long it takes until there is one more.
	nameBurst = 256
	nameEvery = 100 * time.Millisecond
	// numberBurst and numberEvery are the same of numbers: the owners of the files in a large
	// directory may be as many as there are users.
	numberBurst = 4096
	numberEvery = 10 * time.Millisecond
	// maxAddresses is how many addresses are told apart. All others share the look-ups of
	// one.
	maxAddresses = 4096
)

// looks counts the look-ups of addresses.
type looks struct {
	burst time.Duration // as long as that many take
	every time.Duration

	mu sync.Mutex
	// spent is by address until when its look-ups are accounted for: each takes every, and
	// no more than burst lies in the future.
	spent map[netip.Addr]time.Time
	swept time.Time // when those were forgotten last that have all look-ups left
}

func newLooks(burst int, every time.Duration) *looks {
	return &looks{burst: time.Duration(burst) * every, every: every, spent: make(map[netip.Addr]time.Time)}
}

// of finds what counts for an address. mu is held.
func (l *looks) of(client netip.Addr, now time.Time) (address netip.Addr, spent time.Time) {
	address = census.Client(client)
	spent, found := l.spent[address]
	if !found && len(l.spent) >= maxAddresses {
		if now.Sub(l.swept) >= l.every {
			l.sweep(now)
		}
		if len(l.spent) >= maxAddresses {
			address = netip.Addr{}
			spent = l.spent[address]
		}
	}
	if spent.Before(now) {
		spent = now
	}
	return address, spent
}

// sweep forgets addresses that have all look-ups left. mu is held.
func (l *looks) sweep(now time.Time) {
	l.swept = now
	for a, t := range l.spent {
		if !now.Before(t) {
			delete(l.spent, a)
		}
	}
}

// may says whether an address has a look-up left, and take uses it up.
func (l *looks) may(client netip.Addr, now time.Time, take bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	address, spent := l.of(client, now)
	if spent = spent.Add(l.every); spent.Sub(now) > l.burst {
		return false
	}
	if take {
		l.spent[address] = spent
	}
	return true
}
