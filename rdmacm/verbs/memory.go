package verbs

import (
	"fmt"
	"net/netip"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

// memory counts the memory that the messages of connections take. When a connection begins, it reserves
// memory for all messages that it may have promised at a time. It reserves more for messages that the ULP
// keeps; if it gets none, it copies them. So it never waits for memory. Provider.mu guards it.
type memory struct {
	taken    int64
	byClient map[netip.Addr]int64
}

// room returns the size of the buffer for a message of size bytes: the next multiple of 64.
func room(size int) int { return (size + 63) &^ 63 }

// messageMemory returns the memory that a connection reserves for messages when it begins, in both
// directions.
func messageMemory(receives, size int) int64 {
	return int64(receives)*int64(room(size)) + blocks*blockSize
}

// A share is the memory that one connection has reserved. Provider.mu guards its field bytes.
type share struct {
	client netip.Addr
	bytes  int64
}

// reserve counts a new connection of d, and reserves n bytes for its messages. The connections of
// one client address may together reserve at most half of the part of Config.Memory that other
// addresses leave. Beyond that, reserve returns ErrNoMemory.
func (p *Provider) reserve(d *rnic, peer netip.Addr, n int64) (*share, error) {
	s := &share{client: clientaddr.Of(peer)}
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
	has := m.byClient[s.client]
	if left := p.cfg.Memory - (m.taken - has); p.cfg.Memory > 0 && has+n > left/2 {
		return fmt.Errorf("%w: it wants %d KiB; its client has %d KiB, other clients %d of %d KiB, and each may have half of what others leave",
			rdmacm.ErrNoMemory, n>>10, has>>10, (m.taken-has)>>10, p.cfg.Memory>>10)
	}
	m.taken += n
	m.byClient[s.client] += n
	s.bytes += n
	return nil
}

// giveBack undoes reserve and extendLocked.
func (p *Provider) giveBack(d *rnic, s *share) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := &p.memory
	m.taken -= s.bytes
	if m.byClient[s.client] -= s.bytes; m.byClient[s.client] == 0 {
		delete(m.byClient, s.client)
	}
	d.connections--
}
