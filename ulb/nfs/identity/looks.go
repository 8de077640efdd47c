package identity

import (
	"net/netip"
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
	"github.com/nfsrdmad/nfsrdmad/internal/fair"
)

// Limits of the look-ups that clients may cause in a Map. A look-up reads files and may start a process.
// Without limits a client could cause any number of them: by names that it invents, or by setting the owners
// of files to numbers that have no name. Answers from memory do not count.
const (
	// One address may have nameBurst names looked up at once. After that, it gets one every nameEvery.
	nameBurst = 256
	nameEvery = 100 * time.Millisecond
	// The same for numbers: the files of a large directory may have as many owners as there are users.
	numberBurst = 4096
	numberEvery = 10 * time.Millisecond
	// The addresses of a site together may have as many look-ups as siteLooks addresses.
	siteLooks = 8
	// maxAddresses addresses are counted separately. All others share the look-ups of one address.
	maxAddresses = 4096
)

// looks limits the look-ups that each client address, and each site, may cause.
type looks struct {
	burst time.Duration // nameBurst or numberBurst, times every
	every time.Duration

	mu        sync.Mutex
	addresses map[netip.Addr]*looker
	sites     map[netip.Addr]*lookingSite
	room      fair.Tree[*looker] // its units are the entries of addresses
	rest      spent              // of all further addresses together
	swept     time.Time          // time of the last sweep
}

// A looker is an address that is counted separately.
type looker struct {
	fair.Node[*looker]
	spent
	site *lookingSite
}

// A lookingSite is a site with addresses that are counted separately: their number is lookers.
type lookingSite struct {
	spent
	lookers int
}

// spent is the time at which an address or a site has all its look-ups again. Each look-up moves that time on
// by looks.every, or for a site by a part of it. If it would then be more than looks.burst ahead, no look-up is
// left.
type spent struct{ until time.Time }

func newLooks(burst int, every time.Duration) *looks {
	l := &looks{burst: time.Duration(burst) * every, every: every}
	l.addresses, l.sites = make(map[netip.Addr]*looker), make(map[netip.Addr]*lookingSite)
	l.room.Size = maxAddresses
	return l
}

// and returns s after one more look-up that costs every.
func (s spent) and(every time.Duration, now time.Time) spent {
	if s.until.Before(now) {
		s.until = now
	}
	return spent{s.until.Add(every)}
}

// may reports whether a client's address, and its site, have a look-up left. If take is true, may uses it up.
func (l *looks) may(client netip.Addr, now time.Time, take bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	address := clientaddr.Of(client)
	own, site := l.addresses[address], l.sites[clientaddr.Site(address)]
	var ofAddress, ofSite spent
	if own != nil {
		ofAddress = own.spent
	} else if own = l.placeLocked(address, now); own == nil {
		ofAddress = l.rest
	}
	if site != nil {
		ofSite = site.spent
	}
	ofAddress, ofSite = ofAddress.and(l.every, now), ofSite.and(l.every/siteLooks, now)
	if ofAddress.until.Sub(now) > l.burst || ofSite.until.Sub(now) > l.burst {
		return false
	}
	if !take {
		return true
	}
	if own == nil {
		l.rest = ofAddress
		if site != nil {
			site.spent = ofSite
		}
		return true
	}
	if own.Held() == 0 {
		l.addLocked(own)
	}
	own.spent, own.site.spent = ofAddress, ofSite
	return true
}

// placeLocked returns an entry for an address that has none, which addLocked can add; or nil if there are too
// many. If so, an entry of the site that has to give one back by the rule of package fair gives way. The last
// entry of a site does not, because the site would then have all its look-ups again.
func (l *looks) placeLocked(address netip.Addr, now time.Time) *looker {
	own := &looker{}
	own.Of, own.Address = own, address
	if l.room.Free() > 0 {
		return own
	}
	if now.Sub(l.swept) >= l.every {
		l.sweepLocked(now)
	}
	if l.room.Free() > 0 {
		return own
	}
	victim := l.room.Victim(&own.Node, 1)
	if victim == nil || victim.Of.site.lookers == 1 {
		return nil
	}
	return own
}

// addLocked adds an entry. If there are too many afterwards, another one gives way: see placeLocked.
func (l *looks) addLocked(own *looker) {
	if l.room.Free() <= 0 {
		l.dropLocked(l.room.Victim(&own.Node, 1).Of)
	}
	prefix := clientaddr.Site(own.Address)
	if own.site = l.sites[prefix]; own.site == nil {
		own.site = new(lookingSite)
		l.sites[prefix] = own.site
	}
	own.site.lookers++
	l.addresses[own.Address] = own
	l.room.Add(&own.Node, 1, 0)
}

func (l *looks) dropLocked(of *looker) {
	delete(l.addresses, of.Address)
	l.room.Add(&of.Node, -1, 0)
	if of.site.lookers--; of.site.lookers == 0 {
		delete(l.sites, clientaddr.Site(of.Address))
	}
}

// sweepLocked forgets addresses that have all their look-ups left. A site's last one stays until the site has
// all of its own.
func (l *looks) sweepLocked(now time.Time) {
	l.swept = now
	for _, of := range l.addresses {
		if now.Before(of.until) || of.site.lookers == 1 && now.Before(of.site.until) {
			continue
		}
		l.dropLocked(of)
	}
}
