package verbs

import (
	"fmt"
	"sync"
	"unsafe"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/device"
)

// chunkSize is how much of the arena is registered at a time, in bytes.
const chunkSize = 16 << 20

// An rnic is a device that connections use, with the protection domain that they share.
type rnic struct {
	device.Attributes
	shared device.Domain
	arena  []byte

	mu     sync.RWMutex
	chunks []device.Region // of arena; nil: not registered yet
}

// rnicOf is the device of id.
func (p *Provider) rnicOf(id device.ID) (*rnic, error) {
	a, err := id.Attributes()
	if err != nil {
		return nil, err
	}
	if !a.SendsInvalidate {
		return nil, fmt.Errorf("verbs: %s has no memory management extensions", a.Name)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if d := p.devices[a.Device]; d != nil {
		return d, nil
	}
	if p.arena == nil && p.cfg.Arena != nil {
		p.arena = p.cfg.Arena()
	}
	d := &rnic{Attributes: a, arena: p.arena, chunks: make([]device.Region, (len(p.arena)+chunkSize-1)/chunkSize)}
	if d.shared, err = id.OpenDomain(); err != nil {
		return nil, err
	}
	p.devices[a.Device] = d
	return d, nil
}

// close ends the domain, when no connection uses it.
func (d *rnic) close() {
	for _, r := range d.chunks {
		if r != nil {
			r.Deregister()
		}
	}
	d.shared.Close()
}

// key is the local key of the arena's memory at the beginning of b, and how much of b the
// key is good for. 0 bytes: b lies elsewhere, or the device does not take the chunk.
func (d *rnic) key(b []byte) (key uint32, length int) {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b))) - uintptr(unsafe.Pointer(unsafe.SliceData(d.arena)))
	if at >= uintptr(len(d.arena)) {
		return 0, 0
	}
	i := int(at / chunkSize)
	d.mu.RLock()
	r := d.chunks[i]
	d.mu.RUnlock()
	if r == nil {
		if r = d.register(i); r == nil {
			return 0, 0
		}
	}
	return r.LKey(), min(len(b), (i+1)*chunkSize-int(at))
}

func (d *rnic) register(i int) device.Region {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.chunks[i] == nil {
		r, err := d.shared.Register(d.arena[i*chunkSize:min((i+1)*chunkSize, len(d.arena))], device.LocalWrite)
		if err != nil {
			return nil
		}
		d.chunks[i] = r
	}
	return d.chunks[i]
}
