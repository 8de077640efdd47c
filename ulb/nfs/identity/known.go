package identity

import (
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// maxKnown is the largest number of entries in each map of remembered look-ups. There are separate
// maps for users and groups, for names and numbers, and for entries that exist and those that do
// not. So names that clients invent never displace existing ones. A full map loses its expired
// entries, or all entries if none has expired.
const maxKnown = 8192

// An entry is the result of a look-up: a name with its number, or "not found", or "no
// answer".
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

// known holds the remembered entries of one kind: users or groups. The zero value is empty.
type known struct {
	mu             sync.RWMutex
	found, missing remembered
}

// remembered holds entries by name and by number.
type remembered struct {
	names   map[string]*entry
	numbers map[uint32]*entry
}

// of returns the part of k that stores e: k.found or k.missing.
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

// newer returns the valid one of two entries for one key: the found one if it has not
// expired, else the missing one. Either may be nil. The result is false if neither is valid.
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

// keep adds e to m and returns m. If m already has maxKnown entries, keep first removes the expired
// entries or, if none has expired, all entries.
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
