package iwarp

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/ownaddr"
	"github.com/nfsrdmad/nfsrdmad/internal/turns"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

// A Provider is a software RNIC. It implements rdmacm.Provider.
type Provider struct {
	cfg      Config
	counters counters
	rings    turns.Pool[*ring]
	messages messages
	stags    stagTable

	batches   sync.Pool // *batch
	outReads  sync.Pool // *outRead
	responses sync.Pool // *response
	stashes   sync.Pool // *largeStash
}

var _ rdmacm.Provider = (*Provider)(nil)

// ringPatience is how long all rings may stay lent, before the Provider makes a further one. They stay
// lent for so long only if handlers block in operations that must not block, for example in file systems.
const ringPatience = 20 * time.Millisecond

// New makes a Provider. It fails only if the Config is invalid.
func New(cfg Config) (*Provider, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	p := &Provider{cfg: cfg, stags: stagTable{m: make(map[uint32]*region)}}
	p.rings.Most, p.rings.New, p.rings.Patience = cfg.Rings, func() *ring { return new(ring) }, ringPatience
	p.batches.New = func() any { return new(batch) }
	p.outReads.New = func() any { return new(outRead) }
	p.stashes.New = func() any { return new(largeStash) }
	p.responses.New = func() any { return new(response) }
	return p, nil
}

// Name returns "iwarp".
func (p *Provider) Name() string { return "iwarp" }

// Own returns the addresses by which this machine can connect to its own listener. The argument
// at is the address that the listener listens on.
func (p *Provider) Own(at netip.AddrPort) []netip.AddrPort { return ownaddr.Of(at) }

func (p *Provider) event(e rdmacm.Event) {
	if p.cfg.Event != nil {
		p.cfg.Event(e)
	}
}

// Limits returns the limits of work requests, which are the same for all connections.
func (p *Provider) Limits() rdmacm.Limits {
	return rdmacm.Limits{MaxSend: maxSend, MaxLocal: maxLocal, RemoteInvalidation: true}
}

// counters counts events since the Provider was made.
type counters struct {
	setupFailed   atomic.Uint64 // connections that failed during set-up
	rejected      atomic.Uint64 // requests for a connection that either side refused
	terminatesOut atomic.Uint64
	terminatesIn  atomic.Uint64
	emptyEnds     atomic.Uint64 // connections ended by ErrEmpty
	misguessed    atomic.Uint64 // socket reads ahead whose guess was wrong (lookAhead)
}

// Stats returns the counts of faults, in the form that all providers share.
func (p *Provider) Stats() rdmacm.Stats {
	c := &p.counters
	return rdmacm.Stats{Faults: []rdmacm.Count{
		{What: "setup", N: c.setupFailed.Load() + c.rejected.Load()},
		{What: "terminate_sent", N: c.terminatesOut.Load()},
		{What: "terminate_received", N: c.terminatesIn.Load()},
		{What: "empty", N: c.emptyEnds.Load()},
	}}
}
