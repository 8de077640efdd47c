package export

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Sizes of a sealed handle, in bytes: a head, the file system's handle, and the seal.
const (
	KeySize = 32
	// MaxSealed is the length of the longest sealed handle: NFSv3 carries no more (RFC 1813 §2.4).
	MaxSealed = headSize + vfs.MaxHandle + sealSize

	headSize = 1 + 4 // format, export
	sealSize = 12    // truncated HMAC-SHA-256 of all before it (RFC 2104 §5)
	format1  = 1
)

// ErrForged: the handle was not made by this server with this key.
var ErrForged = errors.New("export: not a handle of this server")

// ErrGone: the handle is genuine, but its export is no longer offered.
var ErrGone = errors.New("export: handle of an export that is gone")

// cacheSlots is the number of handles that fit in the direct-mapped cache of a sealer.
const cacheSlots = 8192

// sealer makes and checks seals. Its cache has handles that the server sealed lately, or whose seals it
// found to be genuine: their check costs one hash and one comparison.
type sealer struct {
	macs  sync.Pool
	seed  maphash.Seed
	cache [cacheSlots]atomic.Pointer[opened]
}

// slot returns the cache slot for a handle. body is the part of the handle that the seal covers.
func (s *sealer) slot(body []byte) *atomic.Pointer[opened] {
	return &s.cache[maphash.Bytes(s.seed, body)%cacheSlots]
}

// opened is a handle whose seal is genuine. It does not change.
type opened struct {
	n      uint8
	sealed [MaxSealed]byte
	id     uint32
	set    *set // the set from which Export was taken
	Opened
}

func (o *opened) body() []byte { return o.sealed[:o.n-sealSize] }
func (o *opened) seal() []byte { return o.sealed[o.n-sealSize : o.n] }

// Opened is the export and the file that a genuine handle names. It does not change.
type Opened struct {
	Export *Export
	Handle vfs.Handle
}

func newSealer(key [KeySize]byte) *sealer {
	return &sealer{
		seed: maphash.MakeSeed(),
		macs: sync.Pool{New: func() any { return &mac{Hash: hmac.New(sha256.New, key[:])} }},
	}
}

type mac struct {
	hash.Hash
	sum [sha256.Size]byte
}

// seal appends to b the seal of b[start:], the first part of its HMAC.
func (s *sealer) seal(b []byte, start int) []byte {
	m := s.macs.Get().(*mac)
	m.Reset()
	m.Write(b[start:])
	b = append(b, m.Sum(m.sum[:0])[:sealSize]...)
	s.macs.Put(m)
	return b
}

// Seal appends to b the handle that a client gets for the file h of export e.
func (t *Table) Seal(b []byte, e *Export, h vfs.Handle) []byte {
	start := len(b)
	b = append(b, format1)
	b = binary.BigEndian.AppendUint32(b, e.ID)
	b = h.Append(b)
	body := b[start:]
	slot := t.seal.slot(body)
	if o := slot.Load(); o != nil && string(o.body()) == string(body) {
		return append(b, o.seal()...)
	}
	b = t.seal.seal(b, start)
	o := &opened{n: uint8(len(b) - start), id: e.ID, Opened: Opened{Handle: h}}
	copy(o.sealed[:], b[start:])
	t.keep(slot, o, t.current.Load())
	return b
}

// Find checks a client's handle and returns the export and file that it names, or ErrForged or ErrGone.
// It does not check that the client may use the export.
func (t *Table) Find(sealed []byte) (*Opened, error) {
	if len(sealed) <= headSize+sealSize || len(sealed) > MaxSealed || sealed[0] != format1 {
		return nil, ErrForged
	}
	body, seal := sealed[:len(sealed)-sealSize], sealed[len(sealed)-sealSize:]
	slot := t.seal.slot(body)
	o := slot.Load()
	if o == nil || string(o.body()) != string(body) {
		var err error
		if o, err = t.seal.open(sealed); err != nil {
			return nil, err
		}
	} else if !hmac.Equal(o.seal(), seal) {
		return nil, ErrForged
	}
	now := t.current.Load()
	if o.set != now || o.Export != nil && o.Export.mount != nil && o.Export.use.retired.Load() {
		// The cached export is of an earlier set, or is a mount whose file system was closed.
		again := *o
		o = t.keep(slot, &again, now)
	}
	if o.Export == nil {
		return nil, ErrGone
	}
	return &o.Opened, nil
}

// keep looks up the export of o, which no other goroutine has yet, and stores o in its cache slot.
func (t *Table) keep(slot *atomic.Pointer[opened], o *opened, now *set) *opened {
	o.set, o.Export = now, now.find(o.id)
	slot.Store(o)
	return o
}

// open checks a handle's seal by computing it again.
func (s *sealer) open(sealed []byte) (*opened, error) {
	body := sealed[:len(sealed)-sealSize]
	var buf [MaxSealed + sealSize]byte
	again := s.seal(append(buf[:0], body...), 0)
	if !hmac.Equal(again, sealed) {
		return nil, ErrForged
	}
	o := &opened{n: uint8(len(sealed)), id: binary.BigEndian.Uint32(body[1:])}
	copy(o.sealed[:], sealed)
	var ok bool
	if o.Handle, ok = vfs.MakeHandle(body[headSize:]); !ok {
		return nil, ErrForged
	}
	return o, nil
}
