package state

import (
	"sync"
	"time"
)

// Config is how a Manager works.
type Config struct {
	// Lease is how long a client's state is safe without a word from it; 0: 90 s.
	Lease time.Duration
	// Grace is how long after a start only what was held before may be claimed
	// again, where the leases of the server's former life were not longer; 0: as long as
	// Lease.
	Grace time.Duration
	// Courtesy is how long state of a client whose lease ran out is kept as long as
	// no other client wants what it holds; 0: a day. Where a part of it is locked, that
	// is two leases at most.
	Courtesy time.Duration
	// Memory is what all that clients hold may take, in bytes; 0: 128 MiB. Those of one
	// address may have as much as they leave to others.
	Memory int
	// Records remember over restarts which clients hold something. nil: none are
	// kept, and there is no grace.
	Records Records
	// Event is told what an administrator wants to know. It is called without a lock, and
	// must not block. It may be nil.
	Event func(*Event)
}

// A Manager holds the state of all clients of a server. Its methods may be called from
// any goroutine.
type Manager struct {
	cfg     Config
	epoch   uint32
	sweeper sweeper
	// recording is held while Records are changed, and taken before mu.
	recording token
	// mu guards all that follows, and every Client, owner and state reached from it.
	mu      sync.Mutex
	clients clients
	grace   grace
	files   files
	// forgotten are records that are to be removed in good time.
	forgotten []Record
	// unrecorded wait for their records to be written, and marked for these to be written
	// anew. withheld: until that is done nothing new is granted.
	unrecorded, marked []*Client
	withheld           bool
}

// A token is held by one goroutine at a time. It is a channel and no mutex, because it is held
// while the disk works: testing/synctest lets time pass for goroutines that wait for a channel.
type token chan struct{}

func (t token) lock()   { t <- struct{}{} }
func (t token) unlock() { <-t }

// New returns a Manager. Close ends its goroutines.
func New(cfg Config) (*Manager, error) {
	if cfg.Lease == 0 {
		cfg.Lease = 90 * time.Second
	}
	if cfg.Grace == 0 {
		cfg.Grace = cfg.Lease
	}
	if cfg.Courtesy == 0 {
		cfg.Courtesy = 24 * time.Hour
	}
	if cfg.Memory == 0 {
		cfg.Memory = usualMemory
	}
	m := &Manager{cfg: cfg, recording: make(token, 1)}
	if err := m.begin(); err != nil {
		return nil, err
	}
	return m, nil
}

// Lease is how long a client's lease lasts without renewal.
func (m *Manager) Lease() time.Duration { return m.cfg.Lease }
