package mem

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// PageSize is the unit of allocation, in bytes.
const PageSize = 4096

// MinCeiling is the smallest ceiling that a Pool accepts, in bytes.
const MinCeiling = 4 << 20

// maxPages is what the page numbers of the allocator can count.
const maxPages = 1 << 30

// ErrTooLarge: the request exceeds what the pool or the share could ever give.
var ErrTooLarge = errors.New("mem: request exceeds the ceiling")

// ErrClosed: the pool or the share was closed before the request was granted.
var ErrClosed = errors.New("mem: closed")

// DeviceHook makes an arena usable by a device before a block of it is handed
// to that device (verbs registers it; the software RNIC needs nothing). It is
// called once for each arena and hook.
type DeviceHook func(arena []byte) error

// Config says how large a Pool may get.
type Config struct {
	// Ceiling is the most payload memory at any time, in bytes; rounded down
	// to whole pages. At least MinCeiling.
	Ceiling int64
	// Share is the most that one Share may hold, in bytes; 0 means half of
	// the ceiling. More than the largest block (the largest power of two not
	// above Ceiling) does not make larger requests possible.
	Share int64
	// Group is the most that one Group may hold, in bytes; 0 means half of
	// the ceiling.
	Group int64
}

// Stats is a snapshot of a Pool's counters.
type Stats struct {
	Ceiling, InUse, Peak int64 // bytes
	// Resident is an upper bound of the arena's bytes that occupy memory.
	Resident int64
	// Trimmed counts the bytes given back to the kernel.
	Trimmed uint64
	// Waiting is how many requests wait now, in the pool's queue, a share's or a group's.
	Waiting int
	// Granted counts requests that got memory, Waited those of them and of
	// others that had to queue, Refused those answered with an error.
	Granted, Waited, Refused uint64
}

// A Pool hands out payload memory up to a ceiling. All methods may be called
// from any goroutine.
type Pool struct {
	arena []byte
	limit int32 // of a share, pages
	// groupLimit is of a group, in pages.
	groupLimit int32
	unused     *Buffer
	shares     map[*Share]struct{}

	// mu guards all that follows and the fields of Shares, queued Requests
	// and unused Buffers. No callback runs under it.
	mu      sync.Mutex
	pages   *buddy
	waiting fifo // requests whose group and share have room, charged to them
	ready   fifo // requests whose Granted is to be called

	// crowded are the groups where requests wait, and some where none does.
	crowded []*Group
	tickets uint64

	delivering bool
	closed     bool
	unmapped   bool

	trimming bool
	trimDone sync.Cond
	pinned   int // device hooks: the kernel must not take pages from them

	inUse, peak     int32 // pages
	recent, earlier int32 // most pages in use, this housekeeping interval and the last
	queuedNow       int
	granted, waited uint64
	refused         uint64
	trimmed         uint64
}

// NewPool maps an arena of cfg.Ceiling bytes. No memory is used until blocks
// of it are.
func NewPool(cfg Config) (*Pool, error) {
	if cfg.Ceiling < MinCeiling || cfg.Ceiling/PageSize > maxPages {
		return nil, fmt.Errorf("mem: ceiling of %d bytes is not within [%d, %d]",
			cfg.Ceiling, int64(MinCeiling), int64(maxPages)*PageSize)
	}
	if cfg.Share < 0 || cfg.Share > 0 && cfg.Share < PageSize {
		return nil, fmt.Errorf("mem: share of %d bytes is less than a page", cfg.Share)
	}
	if cfg.Group < 0 || cfg.Group > 0 && cfg.Group < PageSize {
		return nil, fmt.Errorf("mem: group of %d bytes is less than a page", cfg.Group)
	}
	total := int32(cfg.Ceiling / PageSize)
	limit := total / 2
	if cfg.Share > 0 {
		limit = int32(min(cfg.Share/PageSize, int64(total)))
	}
	group := total / 2
	if cfg.Group > 0 {
		group = int32(min(cfg.Group/PageSize, int64(total)))
	}
	arena, err := unix.Mmap(-1, 0, int(total)*PageSize, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_ANONYMOUS|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("mem: mapping an arena of %d bytes: %w", int64(total)*PageSize, err)
	}
	p := &Pool{
		arena:      arena,
		limit:      limit,
		groupLimit: group,
		pages:      newBuddy(total),
		shares:     make(map[*Share]struct{}),
	}
	p.trimDone.L = &p.mu
	return p, nil
}

// NewShare opens a share of the pool. Of a closed pool it is closed as well.
func (p *Pool) NewShare() *Share {
	s := &Share{pool: p, limit: p.limit, largest: min(p.limit, p.pages.largest())}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		s.closed = true
	} else {
		p.shares[s] = struct{}{}
	}
	return s
}

// OnArena shows the arena to a device, which may pin it. From then on Trim does
// nothing: a device goes on using the pages that it knows. It must not be
// called by a DeviceHook.
func (p *Pool) OnArena(hook DeviceHook) error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return ErrClosed
	}
	p.pinned++
	for p.trimming {
		p.trimDone.Wait()
	}
	p.mu.Unlock()
	err := hook(p.arena)
	if err != nil {
		p.mu.Lock()
		p.pinned--
		p.unmap()
		p.mu.Unlock()
	}
	return err
}

// Stats returns the counters of this moment.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Stats{
		Ceiling:  int64(p.pages.total) * PageSize,
		InUse:    int64(p.inUse) * PageSize,
		Peak:     int64(p.peak) * PageSize,
		Resident: int64(p.inUse+p.pages.residue) * PageSize,
		Trimmed:  p.trimmed,
		Waiting:  p.queuedNow,
		Granted:  p.granted,
		Waited:   p.waited,
		Refused:  p.refused,
	}
}

// Close closes every share. The arena is unmapped when the last Buffer is
// released, unless a device was shown it: what it may still do with the pages
// is not known here, and the mapping stays for the life of the process.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	for s := range p.shares {
		p.shut(s)
	}
	p.unmap()
	p.deliver()
}

// unmap lets the arena go when nothing can reach it any more. p.mu is held.
func (p *Pool) unmap() {
	if !p.closed || p.unmapped || p.inUse > 0 || p.trimming || p.pinned > 0 {
		return
	}
	p.unmapped = true
	// Munmap fails for arguments that are no mapping only: a programmer's error.
	if err := unix.Munmap(p.arena); err != nil {
		panic("mem: unmapping the arena: " + err.Error())
	}
	p.arena = nil
}
