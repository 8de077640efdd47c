package verbs

import (
	"errors"
	"sync"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/device"
)

// A region is memory that the peer may use.
type region struct {
	c      *Conn
	of     device.Region
	memory []byte // keeps the memory reachable, because the device uses it

	once sync.Once
	err  error
}

var errShared = errors.New("verbs: this connection was not set up to expose memory")

// Register implements rdmacm.Conn.
func (c *Conn) Register(memory []byte, access rdmacm.Access) (rdmacm.Region, error) {
	if !c.domain.own {
		return nil, errShared
	}
	rights := 0
	if access&rdmacm.RemoteRead != 0 {
		rights |= device.RemoteRead
	}
	if access&rdmacm.RemoteWrite != 0 {
		rights |= device.RemoteWrite | device.LocalWrite // the verbs require both
	}
	c.domain.mu.RLock()
	defer c.domain.mu.RUnlock()
	if c.domain.closed {
		return nil, rdmacm.ErrClosed
	}
	m, err := c.domain.Register(memory, rights)
	if err != nil {
		return nil, err
	}
	r := &region{c: c, of: m, memory: memory}
	c.mu.Lock()
	ended := c.ending.phase == destroyed // conclude has already revoked the regions
	if !ended {
		c.regions[r] = struct{}{}
	}
	c.mu.Unlock()
	if ended {
		m.Deregister()
		return nil, rdmacm.ErrClosed
	}
	return r, nil
}

func (r *region) STag() uint32   { return r.of.RKey() }
func (r *region) Offset() uint64 { return address(r.memory) }

// Deregister implements rdmacm.Region.
func (r *region) Deregister() error {
	r.once.Do(func() {
		r.err = r.of.Deregister()
		r.c.mu.Lock()
		delete(r.c.regions, r)
		r.c.mu.Unlock()
	})
	return r.err
}
