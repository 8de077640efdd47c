package nlm

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nlm4wire"
)

const (
	// lastMessages is the number of calls with _MSG of an address whose results the server remembers.
	lastMessages = 8
	// maxCorrespondents is the largest number of addresses for which it does so.
	maxCorrespondents = 4096
	// runningFor is how long the copies of a call that runs are dropped. It may have been given up.
	runningFor = time.Minute
	// lasting is how long a result is remembered. Hosts repeat their calls for a shorter time, and may number them from the
	// start again after a restart.
	lasting = 5 * time.Minute
)

// A digest names a call: the procedure, and all arguments, of which the cookie tells it from other calls.
type digest [sha256.Size]byte

func digestOf(c *rpc.Call) (of digest) {
	h := sha256.New()
	h.Write(binary.BigEndian.AppendUint32(nil, c.Header.Version))
	h.Write(binary.BigEndian.AppendUint32(nil, c.Header.Procedure))
	h.Write(c.Args.Rest())
	h.Sum(of[:0])
	return of
}

// correspondence has the last calls with _MSG of each address, and their results. The replies of such calls are empty, so
// rpc's memory of replies does not help a host that repeats one: a LOCK_MSG that comes again behind its UNLOCK_MSG must
// not lock again.
type correspondence struct {
	mu   sync.Mutex
	last map[netip.Addr]*[lastMessages]result
	next uint64
}

type result struct {
	of   digest
	stat wire.Stat4
	// by is the call that runs; if it is nil, stat is what it has led to. Either holds until the time until.
	by     *rpc.Call
	until  time.Time
	number uint64 // counts up; 0: there is none
}

// begin returns the status of a call that has come before from this address (again), or says that a copy of it runs (runs).
// Otherwise the caller runs the call. If lasts is true, begin remembers that it runs, until end.
func (m *correspondence) begin(from netip.Addr, of digest, c *rpc.Call, lasts bool) (stat wire.Stat4, again, runs bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch r := m.find(from, of); {
	case r == nil && lasts:
		m.put(from, result{of: of, by: c, until: time.Now().Add(runningFor)})
	case r == nil:
	case r.by == nil:
		return r.stat, true, false
	case r.by != c:
		return 0, false, true
	default:
		r.by, r.until = c, time.Now().Add(runningFor)
	}
	return 0, false, false
}

// end remembers the status of a call that has run, if it is final. BLOCKED and DENIED_GRACE_PERIOD are not: the host asks
// again.
func (m *correspondence) end(from netip.Addr, of digest, stat wire.Stat4) {
	if stat != wire.Blocked && stat != wire.DeniedGracePeriod {
		m.add(from, of, stat)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	// A lock that was BLOCKED may have been granted since.
	if r := m.find(from, of); r != nil && r.by != nil {
		*r = result{}
	}
}

// add remembers a status that is final.
func (m *correspondence) add(from netip.Addr, of digest, stat wire.Stat4) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put(from, result{of: of, stat: stat, until: time.Now().Add(lasting)})
}

// forget forgets the calls of an address, whose host has restarted.
func (m *correspondence) forget(from netip.Addr) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.last, from)
}

// find returns what the memory has of a call, or nil. The caller holds m.mu.
func (m *correspondence) find(from netip.Addr, of digest) *result {
	if all := m.last[from]; all != nil {
		for i := range all {
			if a := &all[i]; a.number > 0 && a.of == of && time.Now().Before(a.until) {
				return a
			}
		}
	}
	return nil
}

// put replaces what the memory has of the same call, or the oldest of the address. The caller holds m.mu.
func (m *correspondence) put(from netip.Addr, r result) {
	all := m.last[from]
	if all == nil {
		if m.last == nil {
			m.last = make(map[netip.Addr]*[lastMessages]result)
		}
		makeRoom(m.last, maxCorrespondents)
		all = new([lastMessages]result)
		m.last[from] = all
	}
	place := m.find(from, r.of)
	if place == nil {
		place = &all[0]
		for i := range all {
			if all[i].number < place.number {
				place = &all[i]
			}
		}
	}
	m.next++
	r.number = m.next
	*place = r
}

// makeRoom removes one entry, any one, from a map that has as many as it may.
func makeRoom[K comparable, V any](all map[K]V, most int) {
	for k := range all {
		if len(all) < most {
			return
		}
		delete(all, k)
	}
}
