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

// Sizes of a sealed handle, in bytes.
const (
	KeySize = 32
	// MaxSealed is the longest: what NFSv3 can carry (RFC 1813 §2.4).
	MaxSealed = headSize + vfs.MaxHandle + sealSize

	headSize = 1 + 4 // format, export
	sealSize = 12    // truncated HMAC-SHA-256 of all before it (RFC 2104 §5)
	format1  = 1
)

// ErrForged: not a handle that this server gave out with this key.
var ErrForged = errors.New("export: not a handle of this server")

// ErrGone: a genuine handle of an export that is not offered any more.
var ErrGone = errors.New("export: handle of an export that is gone")

// cacheSlots is the size of the direct-mapped cache of handles that were sealed,
// or whose seal was found genuine; a power of two.
const cacheSlots = 8192

// sealer makes and checks seals. A handle that was sealed or checked before costs
// a hash and a comparison.
type sealer struct {
	macs  sync.Pool
	seed  maphash.Seed
	cache [cacheSlots]atomic.Pointer[opened]
}

// slot is where a handle is remembered, by what its seal is made of.
func (s *sealer) slot(body []byte) *atomic.Pointer[opened] {
	return &s.cache[maphash.Bytes(s.seed, body)%cacheSlots]
}

// opened is a handle whose seal is genuine. It does not change.
type opened struct {
	n      uint8
	sealed [MaxSealed]byte
	id     uint32
	set    *set // of which the export is one
	Opened
}

func (o *opened) body() []byte { return o.sealed[:o.n-sealSize] }
func (o *opened) seal() []byte { return o.sealed[o.n-sealSize : o.n] }

// Opened is what a genuine handle names. It does not change.
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

// seal appends to b, which holds the head and the handle from start on.
func (s *sealer) seal(b []byte, start int) []byte {
	m := s.macs.Get().(*mac)
	m.Reset()
	m.Write(b[start:])
	b = append(b, m.Sum(m.sum[:0])[:sealSize]...)
	s.macs.Put(m)
	return b
}

// Seal appends the handle that clients get for h of export e to b: at most
// MaxSealed bytes.
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

// Find checks a client's handle and says what it names. ErrForged where it is
// none of ours, ErrGone where the export is not offered any more. Whether the
// client may use the export is not looked at.
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
		// Found in other exports than there are now, or never yet; or a mount that was
		// asleep.
		again := *o
		o = t.keep(slot, &again, now)
	}
	if o.Export == nil {
		return nil, ErrGone
	}
	return &o.Opened, nil
}

// keep completes o, which nothing refers to yet, by the exports that there are
// now, and remembers it.
func (t *Table) keep(slot *atomic.Pointer[opened], o *opened, now *set) *opened {
	o.set, o.Export = now, now.find(o.id)
	slot.Store(o)
	return o
}

// open checks a handle's seal by making it again.
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
