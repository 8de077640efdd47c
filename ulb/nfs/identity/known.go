package identity

import (
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// maxKnown is how many names and how many numbers are remembered of each kind, of those that
// were found, and as many of those that were not: what clients make up takes the place
// of nothing that there is. When there are more, all are forgotten that are too old, or else all.
const maxKnown = 8192

// An entry is what was found: a name with its number, or nothing, or nothing for want of
// an answer.
type entry struct {
	name   string
	id     uint32
	found  bool
	failed bool
	until  time.Time
}

func (e *entry) result() (uint32, error) {
	switch {
	case e.failed:
		return 0, vfs.ErrDelay
	case !e.found:
		return 0, ErrUnknown
	}
	return e.id, nil
}

// known is what is remembered of one kind. The zero value remembers nothing.
type known struct {
	mu             sync.RWMutex
	found, missing remembered
}

// remembered are entries by name and by number.
type remembered struct {
	names   map[string]*entry
	numbers map[uint32]*entry
}

// of is where an entry belongs.
func (k *known) of(e *entry) *remembered {
	if e.found {
		return &k.found
	}
	return &k.missing
}

func (k *known) byName(name string, now time.Time) (*entry, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return newer(k.found.names[name], k.missing.names[name], now)
}

func (k *known) byNumber(id uint32, now time.Time) (*entry, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return newer(k.found.numbers[id], k.missing.numbers[id], now)
}

// newer is what holds of an entry that was found and one that was not; either may be nil.
func newer(found, missing *entry, now time.Time) (*entry, bool) {
	if found != nil && now.Before(found.until) {
		return found, true
	}
	return missing, missing != nil && now.Before(missing.until)
}

func (k *known) keepName(name string, e *entry, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.of(e)
	r.names = keep(r.names, name, e, now)
}

func (k *known) keepNumber(id uint32, e *entry, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.of(e)
	r.numbers = keep(r.numbers, id, e, now)
}

// keep puts e into m, which holds at most maxKnown.
func keep[K comparable](m map[K]*entry, key K, e *entry, now time.Time) map[K]*entry {
	if len(m) >= maxKnown && m[key] == nil {
		for k, old := range m {
			if !now.Before(old.until) {
				delete(m, k)
			}
		}
		if len(m) >= maxKnown {
			clear(m)
		}
	}
	if m == nil {
		m = make(map[K]*entry)
	}
	m[key] = e
	return m
}
