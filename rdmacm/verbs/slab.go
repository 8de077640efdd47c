package verbs

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/device"
)

// A slab is registered memory outside of Go's heap, in blocks of one size.
type slab struct {
	memory []byte
	region device.Region
}

// newSlab makes a slab of n blocks of size bytes.
func newSlab(d device.Domain, n, size, access int) (*slab, error) {
	m, err := unix.Mmap(-1, 0, n*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("%d KiB for messages: %w", n*size>>10, err)
	}
	r, err := d.Register(m, access)
	if err != nil {
		unix.Munmap(m)
		return nil, fmt.Errorf("%d KiB for messages: %w (is the limit of locked memory, ulimit -l, large enough?)", n*size>>10, err)
	}
	return &slab{m, r}, nil
}

func (s *slab) unmap() { unix.Munmap(s.memory) }

// address returns the address of b's first byte, for the device.
func address(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
