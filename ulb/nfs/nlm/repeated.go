package nlm

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"sync"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nlm4wire"
)

const (
	// lastMessages is the number of calls with _MSG of an address whose results the server remembers.
	lastMessages = 8
	// maxCorrespondents is the largest number of addresses for which it does so.
	maxCorrespondents = 4096
)

// correspondence has the last calls with _MSG of each address, and their results. The replies of such calls are empty, so
// rpc's memory of replies does not help a host that repeats one: a LOCK_MSG that comes again behind its UNLOCK_MSG must
// not lock again.
type correspondence struct {
	mu   sync.Mutex
	last map[netip.Addr]*[lastMessages]result
	next uint64
}

type result struct {
	of     [sha256.Size]byte
	stat   wire.Stat4
	number uint64 // counts up; 0: there is none
}

// digest names a call: the procedure, and all arguments, of which the cookie tells it from other calls.
func digest(c *rpc.Call) (of [sha256.Size]byte) {
	h := sha256.New()
	h.Write(binary.BigEndian.AppendUint32(nil, c.Header.Version))
	h.Write(binary.BigEndian.AppendUint32(nil, c.Header.Procedure))
	h.Write(c.Args.Rest())
	h.Sum(of[:0])
	return of
}

// find returns the status of a call that has come before from this address.
func (m *correspondence) find(from netip.Addr, of [sha256.Size]byte) (wire.Stat4, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if all := m.last[from]; all != nil {
		for i := range all {
			if a := &all[i]; a.number > 0 && a.of == of {
				return a.stat, true
			}
		}
	}
	return 0, false
}

// add remembers a status that is final. BLOCKED and DENIED_GRACE_PERIOD are not: the host asks again.
func (m *correspondence) add(from netip.Addr, of [sha256.Size]byte, stat wire.Stat4) {
	if stat == wire.Blocked || stat == wire.DeniedGracePeriod {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.last[from]
	if all == nil {
		if m.last == nil {
			m.last = make(map[netip.Addr]*[lastMessages]result)
		}
		makeRoom(m.last, maxCorrespondents)
		all = new([lastMessages]result)
		m.last[from] = all
	}
	oldest := &all[0]
	for i := range all {
		if all[i].number < oldest.number {
			oldest = &all[i]
		}
	}
	m.next++
	*oldest = result{of, stat, m.next}
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
