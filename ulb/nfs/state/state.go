package state

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"hash/maphash"
	"net/netip"
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/fair"
)

// Config is the configuration of a Manager.
type Config struct {
	// Lease is the lease time: how long the server guarantees a client's state after the client's
	// last request. 0 means 90 s.
	Lease time.Duration
	// Grace is the length of the grace period: the time after a start of the server in which clients can
	// only reclaim state that they held before it. The longest lease that the server promised before the
	// restart counts if it is longer. 0 means the same as Lease.
	Grace time.Duration
	// Courtesy is how long the server keeps the state of a client whose lease ran out, if no other
	// client wants it. 0 means 24 h. A client that holds byte-range locks stays for two leases at most.
	Courtesy time.Duration
	// Memory is the limit on the memory for all state, in bytes. 0 means 128 MiB. The clients of one
	// address together may use at most as much memory as is still free.
	Memory int
	// Records stores across restarts which clients hold state. If it is nil, there is no grace period.
	Records Records
	// Event receives notices for the administrator. It must not block. It may be nil.
	Event func(*Event)
}

// A Manager holds the state of all clients. Its methods may be called from any goroutine.
type Manager struct {
	cfg     Config
	epoch   uint32
	sweeper sweeper
	// recording is the lock for changes of cfg.Records. A goroutine takes it before mu.
	recording token
	// mu guards the fields below, and every Client, Owner, State and file reached from them (guard).
	mu      sync.Mutex
	clients clients
	grace   grace
	files   files
	giving  givingUp // it has a mutex of its own
	// forgotten are the records that the next sweep will remove from cfg.Records.
	forgotten []Record
	// unrecorded are clients whose records a call of record has to write. marked are clients whose
	// records have to be rewritten because their Revoked flag changed. withheld is true if such a
	// rewrite failed: the Manager then grants no new state until a rewrite succeeds.
	unrecorded, marked []*Client
	withheld           bool
	// failed is the time at which a write of records failed for which requests waited; 0 if the latest
	// one succeeded.
	failed  time.Duration
	errands errands // it has a mutex of its own
	ways    ways    // it needs none
}

// A token is a lock that a goroutine may hold while it waits for the disk. It is a channel, because
// the clock of testing/synctest stands still while a goroutine waits for a sync.Mutex.
type token chan struct{}

func (t token) lock()   { t <- struct{}{} }
func (t token) unlock() { <-t }

// New returns a Manager. Close ends its goroutine. If cfg.Records returns an error, New returns it.
func New(cfg Config) (*Manager, error) {
	cfg.Lease = cmp.Or(cfg.Lease, 90*time.Second)
	cfg.Grace = cmp.Or(cfg.Grace, cfg.Lease)
	cfg.Courtesy = cmp.Or(cfg.Courtesy, 24*time.Hour)
	cfg.Memory = cmp.Or(cfg.Memory, 128<<20)
	m := &Manager{cfg: cfg, recording: make(token, 1)}
	m.sweeper = sweeper{start: time.Now(), woken: make(chan struct{}, 1), stop: make(chan struct{}), ended: make(chan struct{})}
	var starts uint32
	var known []Record
	if cfg.Records != nil {
		var err error
		if starts, known, err = cfg.Records.Begin(); err != nil {
			return nil, err
		}
	} else {
		var b [4]byte
		rand.Read(b[:])
		starts = binary.BigEndian.Uint32(b[:])
	}
	m.epoch = starts << 8
	scramble := scrambler{maphash.MakeSeed()}
	m.clients = clients{
		epoch: m.epoch, scramble: scramble,
		byID: make(map[uint64]*Client), byName: make(map[name]incarnations), byInstance: make(map[instance]*Client), byAlias: make(map[name]*Client),
		from: make(map[netip.Addr]*origin),
	}
	m.files.scramble = scramble
	m.files.denials.deny, m.files.denials.holds = make(map[fileID]Access), make(map[fileID][]*Hold)
	m.ways.seed = scramble.seed
	m.files.byID = make(map[fileID]*file)
	m.files.memory.Size, m.files.memory.Floor = int64(cfg.Memory), int64(cfg.Memory/floors)
	m.files.open = make(map[any]*fair.Tree[*origin])
	m.files.claims = make(map[FileKey]*localClaim)
	m.files.unconfirmed = make(map[*Owner]time.Duration)
	g := m.acquire()
	g.beginGrace(known)
	g.release()
	go m.sweepOn()
	return m, nil
}

// Lease returns the lease time.
func (m *Manager) Lease() time.Duration { return m.cfg.Lease }

// An EventKind is the subject of an Event.
type EventKind uint8

// Kinds of Events.
const (
	// GraceBegan: the grace period after a restart began; Event.For is its planned length. It ends
	// earlier if all of Event.Clients have finished, and later if some are still reclaiming state.
	GraceBegan EventKind = iota
	// GraceEnded: the grace period ended. Other clients may now get the state of Event.Clients.
	GraceEnded
	// Taken: the server took away all state of Event.Clients[0]. Event.Why is the reason.
	Taken
	// NameInUse: a client at the address Event.By sent the name of Event.Clients[0], which is active under
	// another principal, at the same address or with a proven one. The client at Event.By has to wait.
	NameInUse
	// Reduced: the server took Event.Opens opens from Event.Clients[0], whose lease is valid. It had the
	// most at the address with the most, in the site with the most, and a client at the address Event.By,
	// which has no more than its part, could get nothing.
	Reduced
	// Refused: Event.Clients[0] could get no more opens and locks, because its part of the memory is used up.
	// There is at most one such Event a minute.
	Refused
)

// An Event is a notice to the administrator about clients: see its Kind.
type Event struct {
	Kind    EventKind
	Clients []Record
	By      netip.Addr
	For     time.Duration
	Why     Why
	Opens   int
}

// A Why is a reason for taking away a client's state.
type Why uint8

// Values of Why.
const (
	// Wanted: the client's lease ran out, and another client wanted its state.
	Wanted Why = iota
	// Named: the client's lease ran out, and another client identified itself by the same name.
	Named
	// Swept: the client's lease ran out longer ago than Config.Courtesy (or than two leases, if the
	// client held locks), or the server needed its memory, its entry in the table of clients, or
	// its open files.
	Swept
	// Greedy: the clients of the client's address had so many entries in the table of clients, or so much
	// memory without any open file, that the clients of another address got too little.
	Greedy
	// Ordered: the administrator ordered it (Expel).
	Ordered
)

// tell calls Config.Event. The caller holds no lock.
func (m *Manager) tell(e *Event) {
	if m.cfg.Event != nil {
		m.cfg.Event(e)
	}
}
