package nfs4

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
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
	// Minors holds the minor versions, indexed by number. A minor version that is nil is
	// not served.
	Minors [3]Minor
}

// A Program serves NFS version 4.
type Program struct {
	exports   *export.Table
	state     *state.Manager
	minors    [3]*minor
	compounds sync.Pool
	givesWay  func(k *rpc.Call, ran time.Duration) bool
	counters  counters
	identity  *identity.Map
	sendNames bool
	// names is the tree of names, which connects the exports. It is nil if the table of exports
	// has no such tree.
	names *pseudo.FS
}

// minor is a minor version with its table of operations.
type minor struct {
	Minor
	operations [lastOperation + 1]*Operation
}

func (m *minor) find(n wire.OpNum) *Operation {
	if n < 0 || n > lastOperation {
		return nil
	}
	return m.operations[n]
}

// New returns the program.
func New(cfg Config) *Program {
	p := &Program{
		exports: cfg.Exports, state: cfg.State, givesWay: (*rpc.Call).GiveWay, identity: cfg.Identity, sendNames: cfg.SendNames,
		names:     pseudo.Of(cfg.Exports),
		counters:  counters{failed: make(map[failure]uint64)},
		compounds: sync.Pool{New: func() any { return &Compound{args: new([lastOperation + 1]any)} }},
	}
	for i, served := range cfg.Minors {
		if served == nil {
			continue
		}
		m := &minor{Minor: served}
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

// Number returns the RPC program number of NFS, 100003.
func (p *Program) Number() uint32 { return wire.Program }

// Versions returns 4 and 4.
func (p *Program) Versions() (low, high uint32) { return wire.Version, wire.Version }

// Binding returns nfs.Binding4 for version 4.
func (p *Program) Binding(version uint32) *rpc.Binding {
	if version != wire.Version {
		return nil
	}
	return &nfs.Binding4
}

// Serve runs NULL or a COMPOUND.
func (p *Program) Serve(c *rpc.Call, w *xdr.Writer) rpc.Outcome {
	if c.Header.Procedure == wire.ProcNull {
		return rpc.Done
	}
	k, _ := c.Progress.(*Compound)
	if k == nil {
		k = p.compounds.Get().(*Compound)
		switch k.decodeHead(p, c, w) {
		case wire.NFS4OK:
			c.Progress = k
		case wire.NFS4ErrBadXDR:
			k.recycle()
			return rpc.GarbageArgs
		default:
			k.recycle()
			return rpc.Done
		}
	}
	if k.Op.Try = c.Try; !c.Try {
		k.since = time.Now()
	}
	out, over := k.run()
	if over {
		k.recycle()
	}
	return out
}

// Judge examines the first file handle of a compound. It checks that this server has issued the
// handle, that the handle's export serves the caller's address and port, and that the export
// accepts the caller's flavor and identity. If not, the server reserves no payload memory and
// fetches no further data for the compound. It then executes only the operations that have arrived,
// and refuses each of them that such a caller may not do. Arguments that Judge does not see, such
// as data, are limited by nfs.Binding4.
func (p *Program) Judge(a *rpc.Arrived, j *rpc.Judgement) rpc.Outcome {
	if a.Header.Procedure == wire.ProcNull {
		return rpc.Done
	}
	// The server reserves no more memory for results than the reply can carry. If that is too
	// little for all operations, the last ones fail, because each operation checks the room that is
	// left.
	j.Words = max(min(j.Words, j.Room), minReply)
	if j.Object == nil {
		p.judgeByName(a, j)
		return rpc.Done
	}
	o, err := p.exports.Find(j.Object)
	if err != nil || !o.Export.Serves(a.Conn, &a.Cred) {
		j.Early, j.Payload = true, 0
		return rpc.Done
	}
	takes := o.Export.Admits(a.Conn, &a.Cred) && !o.Export.Refuses(&a.Cred)
	j.Known = takes
	if !takes || p.exports.Delays(o.Export, &a.Cred) {
		// PUTFH will tell the client the reason.
		j.Early, j.Payload = true, 0
		return rpc.Done
	}
	j.Lane = o.Export.FS.Lane()
	return rpc.Done
}

// judgeByName limits the memory and the length of a compound that does not begin with a file
// handle, if the peer has not yet sent a genuine handle of this server. Such a compound begins at
// the root, or neither reads nor writes. Clients read and write by handle, so a client loses
// nothing by this limit.
func (p *Program) judgeByName(a *rpc.Arrived, j *rpc.Judgement) {
	if a.Conn.Known() {
		return
	}
	j.Payload = min(j.Payload, nameless)
	beside := 0
	for _, item := range a.Placed {
		beside += int(item.Length)
	}
	if a.MessageLen+beside > nameless {
		// The transport does not receive the rest of the compound. Serve executes the operations
		// that have arrived, and ends the compound where the missing part begins.
		j.Early, j.Payload = true, 0
	}
}

// nameless is the limit, in bytes, of the payload memory and of the message length for a compound
// that does not begin with a file handle, from a peer that has not yet sent a genuine handle of
// this server.
const nameless = 64 << 10

// minReply is the size, in bytes, of a reply with the longest tag and one operation that
// failed for lack of room.
const minReply = 4 + 4 + maxTag + 4 + 8

// stripes is the number of success counters of each operation. A connection always uses the
// same counter, chosen by the connection's ID. Connections on different processors thus rarely
// write to the same memory.
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

func (c *counters) count(k *Compound, s Status) {
	if s == wire.NFS4OK {
		c.done[k.Call.Conn.ID%stripes].n[k.Number].Add(1)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed[failure{k.Number, s}]++
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
