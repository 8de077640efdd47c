package rdmatest

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

// Region is memory that one connection exposes to its peer.
type Region struct {
	c      *Conn
	remote rdmacm.Remote
	memory []byte
	access rdmacm.Access

	// link.mu guards invalid and revoked.
	invalid bool // the peer has invalidated the STag
	revoked bool // Deregister has succeeded
}

// Register exposes memory. The peer can guess neither its STag nor its offset.
func (c *Conn) Register(memory []byte, access rdmacm.Access) (rdmacm.Region, error) {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	call := c.exposed
	c.exposed++
	r := &Region{c: c, memory: memory, access: access}
	err, injected := c.faults.failRegister[call]
	switch {
	case c.dead:
		err = rdmacm.ErrClosed
	case !injected:
		r.remote.STag = c.provider.stag()
		// The offset is far from 0 and from the highest offset, and is not aligned.
		var b [8]byte
		rand.Read(b[:])
		r.remote.Offset = binary.BigEndian.Uint64(b[:])>>2 | 1<<40
	}
	c.note(Event{Kind: KindRegister, Remote: r.remote, Length: len(memory), Err: err})
	if err != nil {
		return nil, err
	}
	c.regions[r.remote.STag] = r
	return r, nil
}

// stag returns a random STag that no connection uses and that was not retired recently.
func (p *Provider) stag() uint32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		var b [4]byte
		rand.Read(b[:])
		s := binary.BigEndian.Uint32(b[:])
		if _, used := p.stags[s]; s != 0 && !used {
			p.stags[s] = struct{}{}
			return s
		}
	}
}

// STag returns the steering tag.
func (r *Region) STag() uint32 { return r.remote.STag }

// Offset returns the tagged offset of the first byte.
func (r *Region) Offset() uint64 { return r.remote.Offset }

// Deregister revokes the peer's access.
func (r *Region) Deregister() error {
	c := r.c
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	if r.revoked {
		return nil
	}
	call := c.revoked
	c.revoked++
	err := c.faults.failDeregister[call]
	c.note(Event{Kind: KindDeregister, Remote: r.remote, Length: len(r.memory), Err: err})
	if err != nil {
		return err
	}
	r.revoked = true
	delete(c.regions, r.remote.STag)
	c.provider.retire(r.remote.STag)
	return nil
}

// retire records that an STag is no longer in use. It may be used again after 4096 more were
// retired.
func (p *Provider) retire(stag uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	oldest := &p.retired[p.retirements%len(p.retired)]
	p.retirements++
	delete(p.stags, *oldest)
	*oldest = stag
}

// reach returns the n bytes of c's exposed memory at remote, or an error if c's peer has no
// right for the access want. The caller holds link.mu.
func (c *Conn) reach(remote rdmacm.Remote, n int, want rdmacm.Access) ([]byte, error) {
	r := c.regions[remote.STag]
	switch {
	case r == nil || r.invalid:
		return nil, fmt.Errorf("%w: STag %#x", rdmacm.ErrNotExposed, remote.STag)
	case r.access&want == 0:
		return nil, fmt.Errorf("%w: STag %#x does not grant that access", rdmacm.ErrNotExposed, remote.STag)
	}
	from := remote.Offset - r.remote.Offset // wraps around if remote lies below the region
	size := uint64(len(r.memory))
	if from > size || uint64(n) > size-from {
		return nil, fmt.Errorf("%w: STag %#x, %d bytes at offset %#x", rdmacm.ErrNotExposed, remote.STag, n, remote.Offset)
	}
	return r.memory[from : from+uint64(n)], nil
}
