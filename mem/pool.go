package mem

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/internal/fair"
)

// PageSize is the unit of allocation, in bytes.
const PageSize = 4096

// MinCeiling is the smallest ceiling that a Pool accepts, in bytes.
const MinCeiling = 4 << 20

// maxPages is the largest number of pages of an arena, for 2 TiB. The sum of up to three such
// numbers fits into an int32.
const maxPages = 1 << 29

// noLimit is the value of Pool.groupLimit if groups have no limit. It is more pages than a group
// can hold or wait for.
const noLimit = 2*maxPages + maxPages/2

// ErrTooLarge: the request has more bytes than the pool can ever grant to the share.
var ErrTooLarge = errors.New("mem: request exceeds the ceiling")

// ErrClosed: the pool or the share was closed before the request was granted.
var ErrClosed = errors.New("mem: closed")

// A DeviceHook makes an arena usable by a device, before any block goes to that device. Package
// verbs registers the memory with it; the software RNIC needs no hook. Each call of OnArena calls
// its hook once.
type DeviceHook func(arena []byte) error

// Config sets the limits of a Pool.
type Config struct {
	// Ceiling is the size of the arena, the memory from which all Buffers come, in bytes. NewPool
	// rounds it down to whole pages, and refuses less than MinCeiling or more than 2 TiB. Heap
	// memory that is charged to shares (Ledger) has an account of its own: a quarter of the
	// ceiling, in addition to it. A sixteenth of the ceiling, and at least 1 MiB, is the reserve, which is for
	// requests of at most 64 KiB only.
	Ceiling int64
	// Share is the most that one Share may hold, in bytes. 0 means half of the ceiling.
	Share int64
	// Group limits the memory that one Group may hold, in bytes. 0 means half of the ceiling.
	// There is a second limit: a Group may hold at most half of the memory that the other Groups
	// do not hold. Neither limit counts the reserve. A Group that holds nothing outside the
	// reserve may exceed both limits with one request. If Group is not less than the ceiling,
	// neither limit applies.
	Group int64
}

// A Pool hands out payload memory up to a ceiling. All methods may be called
// from any goroutine.
type Pool struct {
	arena   []byte // nil once it is unmapped
	limit   int32  // limit of a share, in pages
	pressed atomic.Bool

	// mu guards the fields below it, and the fields of Clients, Shares, Groups, queued Requests and
	// unused Buffers. The pool calls no function of its users while it holds mu.
	mu            sync.Mutex
	groupLimit    int32    // limit of a group in the main zone, in pages
	main, reserve *pageMap // the two zones (pages.go)
	unused        *Buffer
	buffers       []*Buffer // all Buffers, unused ones included

	clients   map[any]*Client // by key
	sites     map[netip.Addr]*siteCharges
	clientIDs uint64
	shares    []*Share
	active    int32      // number of clients that hold memory or wait for it
	heap      fair.Count // bytes of Go heap charged to all shares, of chargesOf; changed only under mu
	heapPages int64

	ungrouped Group
	grouped   int32 // pages of the main zone that Groups other than ungrouped hold, and those for which current waits

	waits
	pressure

	closed bool

	trimming bool
	trimDone sync.Cond
	pinned   int // number of devices that use the arena; if it is not 0, Trim gives no pages back

	peak                            int32 // most pages ever in use at a time
	recent, earlier                 int32 // most pages in use since the last Housekeep, and in the interval before it
	granted, waited, refused, ended uint64
	trimmed                         uint64
}

// NewPool maps an arena of cfg.Ceiling bytes. Pages use memory only once they are written.
func NewPool(cfg Config) (*Pool, error) {
	if cfg.Ceiling < MinCeiling || cfg.Ceiling/PageSize > maxPages {
		return nil, fmt.Errorf("mem: ceiling of %d bytes is not within [%d, %d]",
			cfg.Ceiling, int64(MinCeiling), int64(maxPages)*PageSize)
	}
	total := int32(cfg.Ceiling / PageSize)
	limit, err := cfg.pages("share", cfg.Share)
	if err != nil {
		return nil, err
	}
	group, err := cfg.pages("group", cfg.Group)
	if err != nil {
		return nil, err
	}
	arena, err := unix.Mmap(-1, 0, int(total)*PageSize, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_ANONYMOUS|unix.MAP_PRIVATE|unreserved)
	if err != nil {
		return nil, fmt.Errorf("mem: mapping an arena of %d bytes: %w", int64(total)*PageSize, err)
	}
	if group == total {
		group = noLimit
	}
	reserve := reserveOf(total)
	p := &Pool{
		arena:      arena,
		limit:      limit,
		groupLimit: group,
		main:       newPageMap(total - reserve),
		reserve:    newPageMap(reserve),
		clients:    make(map[any]*Client),
		sites:      make(map[netip.Addr]*siteCharges),
	}
	p.fits = anySize
	p.heap.Divide(p.chargesOf())
	p.ungrouped.init(p)
	p.trimDone.L = &p.mu
	return p, nil
}

// pages converts limit, which is in bytes, to pages. If limit is 0, pages returns half of the
// ceiling. The parameter of is the name of the limit for the error.
func (cfg *Config) pages(of string, limit int64) (int32, error) {
	switch {
	case limit == 0:
		return int32(cfg.Ceiling / PageSize / 2), nil
	case limit < PageSize:
		return 0, fmt.Errorf("mem: %s of %d bytes is less than a page", of, limit)
	}
	return int32(min(limit, cfg.Ceiling) / PageSize), nil
}

// total returns how many pages the arena has.
func (p *Pool) total() int32 { return p.main.total + p.reserve.total }

// OnArena calls hook with the arena, and returns the hook's error. If the pool is closed, it
// returns ErrClosed instead. If the hook succeeds, Trim and Housekeep give no pages back any more,
// because the device keeps using the same pages. A DeviceHook must not call OnArena.
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
		p.unmapLocked()
		p.mu.Unlock()
	}
	return err
}

// Close closes every share. The arena is unmapped when the last Buffer is released. But if a
// DeviceHook has succeeded, the arena stays mapped for the life of the process, because the device
// may still use the pages.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	for len(p.shares) > 0 {
		p.closeShareLocked(p.shares[0])
	}
	if p.sweeper != nil {
		p.sweeper.Stop()
	}
	p.unmapLocked()
	p.deliverAndUnlock()
}

// unmapLocked unmaps the arena if the pool is closed and nothing uses the arena any more.
func (p *Pool) unmapLocked() {
	if !p.closed || p.arena == nil || p.inUse() > 0 || p.trimming || p.pinned > 0 {
		return
	}
	// Munmap fails only for wrong arguments: a programming error.
	if err := unix.Munmap(p.arena); err != nil {
		panic("mem: unmapping the arena: " + err.Error())
	}
	p.arena = nil
}

// Stats is a snapshot of a Pool's counters.
type Stats struct {
	Ceiling, InUse, Peak int64 // bytes of payload memory
	// Charged is how many bytes of Go heap are charged to shares (Ledger).
	Charged int64
	// Small is how many bytes of the reserve for small requests are in use.
	Small int64
	// Resident is an upper bound of the arena's bytes that occupy memory.
	Resident int64
	// Trimmed is how many bytes were given back to the kernel since the start.
	Trimmed uint64
	// Waiting is how many requests wait now. Unfittable is how many requestQueues the pool passes
	// over, because their next request needs a block so large that none can become free at present.
	Waiting, Unfittable int
	// Shares is how many shares are open. Clients is how many clients with a key the pool knows:
	// each has a share, holds memory, or is blamed (Client.blamed). Active is how many clients hold
	// memory or wait for it.
	Shares, Clients, Active int
	// Granted is how many requests got memory, Waited how many had to queue first, and Refused how
	// many got an error.
	Granted, Waited, Refused uint64
	// WaitedFor is how long requests have waited together, those that wait now included, in seconds.
	WaitedFor float64
	// Ended counts the connections that the pool made end because memory was short and their peers
	// made no progress (Holder.End).
	Ended uint64
	// Pressed is true if memory is short: see Pool.Pressed.
	Pressed bool
}

// Stats returns the counters of this moment.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.countWaitLocked()
	return Stats{
		Ceiling:    int64(p.total()) * PageSize,
		InUse:      int64(p.inUse()) * PageSize,
		Peak:       int64(p.peak) * PageSize,
		Charged:    p.heap.Held(),
		Small:      int64(p.reserve.inUse) * PageSize,
		Resident:   int64(p.resident()) * PageSize,
		Trimmed:    p.trimmed,
		Waiting:    p.waiting,
		Unfittable: p.unfittable,
		Shares:     len(p.shares),
		Clients:    len(p.clients),
		Active:     int(p.active),
		Granted:    p.granted,
		Waited:     p.waited,
		WaitedFor:  p.waitedFor,
		Refused:    p.refused,
		Ended:      p.ended,
		Pressed:    p.pressed.Load(),
	}
}
