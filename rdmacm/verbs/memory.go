package verbs

import (
	"fmt"
	"net/netip"

	"github.com/nfsrdmad/nfsrdmad/internal/fair"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

// room returns the size of the buffer for a message of size bytes: the next multiple of 64.
func room(size int) int { return (size + 63) &^ 63 }

// messageMemory returns the memory that a connection reserves for messages when it begins, in both
// directions.
func messageMemory(receives, size int) int64 {
	return int64(receives)*int64(room(size)) + blocks*blockSize
}

// A share is the memory that one connection has reserved.
type share = fair.Node[struct{}]

// reserve counts a new connection of d, and reserves n bytes for its messages. Of Config.Memory, a site and a client
// address get what fair.Tree.MayBorrow allows. Beyond that, reserve returns ErrNoMemory.
func (p *Provider) reserve(d *rnic, peer netip.Addr, n int64) (*share, error) {
	s := &share{Address: peer}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.extendLocked(s, n); err != nil {
		return nil, err
	}
	d.connections++
	return s, nil
}

// extendLocked reserves n bytes more for s, under the limits of reserve.
func (p *Provider) extendLocked(s *share, n int64) error {
	m := &p.memory
	if m.Size > 0 && (m.Free() < n || !m.MayBorrow(s, n)) {
		return fmt.Errorf("%w: it wants %d KiB; its client has %d KiB, all clients together have %d of %d KiB, and a client and its network may have a part of what others leave",
			rdmacm.ErrNoMemory, n>>10, m.AddressHolds(s.Address)>>10, m.Held()>>10, m.Size>>10)
	}
	m.Add(s, n, 0)
	return nil
}

// giveBack undoes reserve and extendLocked.
func (p *Provider) giveBack(d *rnic, s *share) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.memory.Add(s, -s.Held(), 0)
	d.connections--
}
