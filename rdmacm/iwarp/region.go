package iwarp

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// A region is memory exposed to the peer of one connection.
type region struct {
	owner  *regions
	stag   uint32
	base   uint64
	length uint64
	access rdmacm.Access

	// The receiver holds mu while it puts the peer's bytes into memory, never while it waits for them.
	mu     sync.Mutex
	memory []byte // nil once revoked

	revoked atomic.Bool
}

func (r *region) STag() uint32   { return r.stag }
func (r *region) Offset() uint64 { return r.base }

// register exposes memory to the peer under a new steering tag.
func (s *regions) register(memory []byte, access rdmacm.Access) (rdmacm.Region, error) {
	r := &region{
		owner: s, memory: memory, length: uint64(len(memory)), access: access,
		// Offsets need not start at 0 (RFC 5041 §2.2). A random start is harder to guess.
		base: uint64(s.p.stags.fresh()) << regionBaseShift,
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		return nil, rdmacm.ErrClosed
	}
	s.p.stags.insert(r)
	s.all[r] = struct{}{}
	return r, nil
}

// regions holds the memory that a connection has registered.
type regions struct {
	*Conn

	mu  sync.Mutex
	all map[*region]struct{} // nil once the connection has ended
	// past holds the first pastSTags steering tags that were valid and are not any more.
	// The peer may invalidate such a tag at any later time without a fault. Once past is
	// full, any unknown tag may have been valid, and invalidate accepts it.
	past []uint32
}

const pastSTags = 128

// Deregister revokes the peer's access. It waits for a copy in progress, but never for the peer.
func (r *region) Deregister() error {
	r.owner.revoke(r)
	return nil
}

// revoke ends the peer's access to r.
func (s *regions) revoke(r *region) {
	r.revoked.Store(true)
	s.tx.referring.mu.Lock()
	r.mu.Lock()
	memory := r.memory
	r.memory = nil
	r.mu.Unlock()
	s.tx.referring.rescue(memory)
	s.tx.referring.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, r)
	if s.p.stags.remove(r) && len(s.past) < pastSTags {
		s.past = append(s.past, r.stag)
	}
}

// revokeAll revokes every region, at the end of the connection.
func (s *regions) revokeAll() {
	s.mu.Lock()
	all := s.all
	s.all = nil
	s.mu.Unlock()
	for r := range all {
		s.revoke(r)
	}
}

// invalidate carries out the peer's Send with Invalidate (RFC 5040 §5.3). It returns the zero
// Cause if the peer may invalidate stag, and otherwise the cause of the fault.
func (s *regions) invalidate(stag uint32) wire.Cause {
	r := s.p.stags.lookup(stag)
	switch {
	case r != nil && r.owner == s:
		s.revoke(r)
		return wire.Cause{}
	case r != nil:
		return wire.RDMAPNotInvalid
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.past) == pastSTags || slices.Contains(s.past, stag) {
		return wire.Cause{}
	}
	return wire.RDMAPNotInvalid
}

// reach checks whether the peer may access n bytes of r from offset on. The argument want is the
// kind of access. If the peer may, reach returns the zero Cause, and otherwise the fault's cause
// from table t.
func (s *regions) reach(r *region, offset uint64, n int, want rdmacm.Access, t *reachCauses) wire.Cause {
	switch {
	case r == nil:
		return t.invalid
	case r.owner != s:
		return t.foreign
	case r.access&want == 0:
		return t.access
	case offset+uint64(n) < offset && offset+uint64(n) != 0:
		return t.wrap
	case offset < r.base || offset-r.base > r.length || uint64(n) > r.length-(offset-r.base):
		return t.bounds
	}
	return wire.Cause{}
}

// reachCauses has the Terminate causes for the faults that reach finds. DDP and RDMAP have
// different causes for the same faults (RFC 5041 §7.2, RFC 5040 §4.8). DDP has none for missing
// rights, so its cause for an invalid STag stands for them.
type reachCauses struct {
	invalid, foreign, access, bounds, wrap wire.Cause
}

var (
	writeCauses = reachCauses{
		invalid: wire.DDPInvalidSTag, foreign: wire.DDPNotAssociated, access: wire.DDPInvalidSTag,
		bounds: wire.DDPBounds, wrap: wire.DDPWrap,
	}
	readCauses = reachCauses{
		invalid: wire.RDMAPInvalidSTag, foreign: wire.RDMAPNotAssociated, access: wire.RDMAPAccess,
		bounds: wire.RDMAPBounds, wrap: wire.RDMAPWrap,
	}
)

// A stagTable maps steering tags to the registered memory of all connections of a Provider.
// A steering tag belongs to one connection. The connections share the table so that a
// receiver can tell another connection's tag from an unknown one.
type stagTable struct {
	mu     sync.RWMutex
	m      map[uint32]*region
	random struct {
		mu   sync.Mutex
		buf  [256]byte
		left int
	}
}

// insert adds r to the table, under a new steering tag that no other region has.
func (t *stagTable) insert(r *region) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for r.stag = t.fresh(); t.m[r.stag] != nil; {
		r.stag = t.fresh()
	}
	t.m[r.stag] = r
}

func (t *stagTable) lookup(stag uint32) *region {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.m[stag]
}

// remove removes r. It returns false if the table does not have r.
func (t *stagTable) remove(r *region) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	has := t.m[r.stag] == r
	if has {
		delete(t.m, r.stag)
	}
	return has
}
