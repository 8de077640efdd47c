package identity

import (
	"net/netip"
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
)

// Limits of the look-ups that one client address may cause in a Map. A look-up reads files and may
// start a process. Without limits a client could cause any number of them: by names that it
// invents, or by setting the owners of files to numbers that have no name. Answers from memory do
// not count.
const (
	// nameBurst is the number of names that one address may have looked up at once. After
	// that, it gets one more every nameEvery.
	nameBurst = 256
	nameEvery = 100 * time.Millisecond
	// numberBurst and numberEvery are the same for numbers. They are higher, because the
	// files of a large directory may have as many owners as there are users.
	numberBurst = 4096
	numberEvery = 10 * time.Millisecond
	// maxAddresses is the maximum number of addresses counted separately. All others share
	// the look-ups of one address.
	maxAddresses = 4096
)

// looks limits the look-ups that each client address may cause.
type looks struct {
	burst time.Duration // nameBurst or numberBurst, times every
	every time.Duration

	mu sync.Mutex
	// spent holds, for each address, the time at which the address has all its look-ups again. Each
	// look-up moves that time further into the future by looks.every. If the time would then be
	// more than looks.burst ahead, the address has no look-up left.
	spent map[netip.Addr]time.Time
	swept time.Time // time of the last sweep
}

func newLooks(burst int, every time.Duration) *looks {
	return &looks{burst: time.Duration(burst) * every, every: every, spent: make(map[netip.Addr]time.Time)}
}

// ofLocked returns the key in spent for a client's address: the address itself or, if spent is full, the
// zero address, which all further addresses share. It also returns the time in spent, or the
// current time if the time in spent is past.
func (l *looks) ofLocked(client netip.Addr, now time.Time) (address netip.Addr, spent time.Time) {
	address = clientaddr.Of(client)
	spent, found := l.spent[address]
	if !found && len(l.spent) >= maxAddresses {
		if now.Sub(l.swept) >= l.every {
			l.sweepLocked(now)
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

// sweepLocked forgets addresses that have all their look-ups left.
func (l *looks) sweepLocked(now time.Time) {
	l.swept = now
	for a, t := range l.spent {
		if !now.Before(t) {
			delete(l.spent, a)
		}
	}
}

// may reports whether a client's address has a look-up left. If it has one and take is true, may
// uses it up.
func (l *looks) may(client netip.Addr, now time.Time, take bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	address, spent := l.ofLocked(client, now)
	if spent = spent.Add(l.every); spent.Sub(now) > l.burst {
		return false
	}
	if take {
		l.spent[address] = spent
	}
	return true
}
