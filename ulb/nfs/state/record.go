package state

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"net/netip"
	"time"
)

// Records remember on stable storage which clients hold something, so that after a
// restart only they may claim it again (RFC 8881 §8.4.2). What a method did is on stable
// storage when it returns. Begin is called first, once; one method is called at a time.
type Records interface {
	// Begin counts this start of the server, and returns the records there are. starts
	// is below 1<<24, and never the same again.
	Begin() (starts uint32, known []Record, err error)
	// Put adds records, or replaces those of the same names, all of them or none.
	Put(more []Record) error
	// Remove removes records, all of them or none. Those that are not there do not
	// matter.
	Remove(gone []Record) error
}

// A Record is one client that may hold something. Minor and Owner name it.
type Record struct {
	Minor            uint32
	Owner, Principal string
	// Address is where the client made itself known from, as census.Client counts it; the
	// zero value: that is not known.
	Address netip.Addr
	// Lease is how long the client was told that its lease is; 0: that is not known.
	Lease time.Duration
	// Revoked: something that the client held was revoked, and it may not know that. It may
	// claim nothing.
	Revoked bool
}

// recordOf is called with m.mu held.
func (m *Manager) recordOf(c *Client) Record {
	return Record{
		Minor: c.Minor, Owner: c.Owner, Principal: c.Principal, Address: c.known.address,
		Lease: m.cfg.Lease, Revoked: c.known.reclaim.revoked,
	}
}

// begin reads the records and starts what the Manager needs.
func (m *Manager) begin() error {
	m.sweeper.start, m.sweeper.woken = time.Now(), make(chan struct{}, 1)
	var starts uint32
	var known []Record
	if m.cfg.Records != nil {
		var err error
		if starts, known, err = m.cfg.Records.Begin(); err != nil {
			return err
		}
	} else {
		var b [4]byte
		rand.Read(b[:])
		starts = binary.BigEndian.Uint32(b[:])
	}
	m.epoch = starts << 8
	m.clients.begin(m.epoch)
	m.files.scramble = m.clients.scramble
	m.beginGrace(known)
	m.beginSweep()
	return nil
}

// Epoch is a number that this life of the server has, and no other: a multiple of 256.
func (m *Manager) Epoch() uint32 { return m.epoch }

// Record records a client on stable storage, before it first holds something. With try, what
// would wait for the disk is not done, and blocked is true.
func (m *Manager) Record(c *Client, try bool) (blocked bool, err error) {
	if m.cfg.Records == nil {
		return false, nil
	}
	m.mu.Lock()
	recorded := c.known.reclaim.recorded
	m.mu.Unlock()
	if recorded || try {
		return !recorded, nil
	}
	defer m.record(c)()
	m.mu.Lock()
	defer m.mu.Unlock()
	if !c.known.reclaim.recorded {
		return false, errNotRecorded
	}
	return false, nil
}

// errNotRecorded: the Records could not be changed, and said why themselves.
var errNotRecorded = errors.New("state: the client could not be recorded")

// record writes the record of c, where there is none yet, together with those of all other
// clients that wait for theirs: however many come at once, they wait for the disk once or
// twice. It takes m.recording, and returns what lets go of it; c is recorded then, or could
// not be.
func (m *Manager) record(c *Client) (release func()) {
	m.mu.Lock()
	m.unrecorded = append(m.unrecorded, c)
	m.mu.Unlock()
	m.recording.lock()
	m.mu.Lock()
	var all []*Client
	var more []Record
	if len(m.forgotten) >= maxClients {
		m.unrecorded = nil // no more until the records of others are removed
		m.wake()
	}
	for _, c := range m.unrecorded {
		k := &c.known.reclaim
		r := m.claimOf(c)
		if k.recorded = k.recorded || r != nil && r.Lease == m.cfg.Lease; !k.recorded && !c.known.gone {
			all, more = append(all, c), append(more, m.recordOf(c))
		}
	}
	m.unrecorded = nil
	m.mu.Unlock()
	if len(more) == 0 || m.cfg.Records.Put(more) != nil {
		return m.recording.unlock
	}
	m.mu.Lock()
	for _, c := range all {
		c.known.reclaim.recorded = true
		if c.known.gone { // meanwhile, and nothing knew of a record
			m.forget(c)
		}
	}
	m.mu.Unlock()
	return m.recording.unlock
}

// removeRecords removes the records of clients that are about to go: all of them or none. A
// client that has gone meanwhile has left its record to the next incarnation, or to forget.
func (m *Manager) removeRecords(all []*Client) error {
	if m.cfg.Records == nil || len(all) == 0 {
		return nil
	}
	m.recording.lock()
	defer m.recording.unlock()
	var gone []Record
	var recorded []*Client
	claims := make(map[*Client]*claim)
	m.mu.Lock()
	for _, c := range all {
		r := m.grace.claims[c.name()]
		if r != nil && r.Principal == c.Principal {
			claims[c] = r
		}
		if !c.known.gone && (c.known.reclaim.recorded || claims[c] != nil) {
			gone, recorded = append(gone, m.recordOf(c)), append(recorded, c)
		}
	}
	m.mu.Unlock()
	if len(gone) == 0 {
		return nil
	}
	if err := m.cfg.Records.Remove(gone); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range recorded {
		c.known.reclaim.recorded = false
		if r := claims[c]; r != nil {
			m.settle(r)
			delete(m.grace.claims, c.name())
		}
	}
	return nil
}

// forget has the record of a client removed in good time that is no more, or whose lease ran out:
// it holds nothing. It is called with m.mu held.
func (m *Manager) forget(c *Client) {
	r := m.claimOf(c)
	if r == nil && !c.known.reclaim.recorded {
		return
	}
	if r != nil {
		m.settle(r)
		delete(m.grace.claims, c.name())
	}
	m.forgotten = append(m.forgotten, m.recordOf(c))
	m.wake()
}

// removeForgotten removes the records of clients that were forgotten, unless they, or other
// incarnations of theirs, have come to need them again.
func (m *Manager) removeForgotten() {
	m.mu.Lock()
	none := len(m.forgotten) == 0
	m.mu.Unlock()
	if none {
		return
	}
	m.recording.lock()
	defer m.recording.unlock()
	m.mu.Lock()
	var gone []Record
	for _, r := range m.forgotten {
		in := m.clients.byName[name{r.Minor, r.Owner}]
		if in == nil || in.confirmed == nil || !in.confirmed.known.reclaim.recorded {
			gone = append(gone, r)
		}
	}
	m.forgotten = nil
	m.mu.Unlock()
	if len(gone) == 0 || m.cfg.Records.Remove(gone) == nil {
		return
	}
	m.mu.Lock()
	m.forgotten = append(m.forgotten, gone...)
	m.mu.Unlock()
}
