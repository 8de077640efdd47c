package nfs4

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/identity"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/pseudo"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// Config holds the parts that a Program works with.
type Config struct {
	Exports *export.Table
	State   *state.Manager
	// Identity translates between names and numbers of users and groups. If it is nil, the server
	// sends and accepts only numbers, as decimal digits. If SendNames is true, the server sends
	// names to every caller, otherwise only to callers with RPCSEC_GSS.
	Identity  *identity.Map
	SendNames bool
	// Minors holds the minor versions, indexed by number. A minor version that is nil is not served.
	Minors [3]Minor
}

// A Program serves NFS version 4.
type Program struct {
	nfs.Service
	exports   *export.Table
	state     *state.Manager
	minors    [3]*minor
	compounds sync.Pool
	givesWay  func(k *rpc.Call, ran time.Duration) bool
	counters  counters
	durations atomic.Pointer[durations] // nil before MeasureDurations
	identity  *identity.Map
	sendNames bool
	// names is the tree of names, which connects the exports. It is nil if the table of exports
	// has no such tree.
	names *pseudo.FS
}

// minor is a minor version with its table of operations.
type minor struct {
	Minor
	sequencer  Sequencer // the Minor, or nil
	operations [lastOperation + 1]*Operation
}

// New returns the program.
func New(cfg Config) *Program {
	p := &Program{
		Service: nfs.Service{Program: wire.Program, Version: wire.Version, Procedures: &nfs.Binding4},
		exports: cfg.Exports, state: cfg.State, givesWay: (*rpc.Call).GiveWay, identity: cfg.Identity, sendNames: cfg.SendNames,
		names:     pseudo.Of(cfg.Exports),
		counters:  counters{failed: make(map[failure]uint64)},
		compounds: sync.Pool{New: func() any { return new(Compound) }},
	}
	for i, served := range cfg.Minors {
		if served == nil {
			continue
		}
		m := &minor{Minor: served}
		m.sequencer, _ = served.(Sequencer)
		for _, ops := range [...][]Operation{shared, served.Operations()} {
			for _, op := range ops {
				if legal(op.Number, uint32(i)) {
					m.operations[op.Number] = &op
				}
			}
		}
		p.minors[i] = m
	}
	return p
}

// pathOf returns the path of an export in the tree of names.
func (p *Program) pathOf(e *export.Export) string {
	if p.names == nil {
		return e.Name
	}
	return p.names.Path(e)
}

// stripes is the number of success counters of each operation. Connections use different ones, by the
// connection's ID, so that processors rarely write to the same memory.
const stripes = 16

// counters counts the operations executed.
type counters struct {
	done [stripes]struct {
		n [lastOperation + 1]atomic.Uint64
		_ [64]byte
	}
	mu sync.Mutex
	// failed counts the failures. An operation whose number the minor version does not define is
	// counted here as OpIllegal.
	failed map[failure]uint64
}

// A failure is an operation that failed, and its status.
type failure struct {
	operation wire.OpNum
	status    Status
}

// OperationStats is the number of times that one operation ended with one status.
type OperationStats struct {
	Operation wire.OpNum
	Status    Status
	Count     uint64
}

// Stats returns the counts of all operations and statuses that occurred since the start.
func (p *Program) Stats() (all []OperationStats) {
	c := &p.counters
	for op := range c.done[0].n {
		var n uint64
		for i := range c.done {
			n += c.done[i].n[op].Load()
		}
		if n > 0 {
			all = append(all, OperationStats{wire.OpNum(op), wire.NFS4OK, n})
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for f, n := range c.failed {
		all = append(all, OperationStats{f.operation, f.status, n})
	}
	slices.SortFunc(all, func(a, b OperationStats) int {
		return cmp.Or(cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.Status, b.Status))
	})
	return all
}
