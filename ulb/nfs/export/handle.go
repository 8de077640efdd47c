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
	sealSize = 12    // made of the HMAC-SHA-256 of all before it (RFC 2104 §5): see sealer.seal
	markSize = 4     // the part of the seal that does not depend on the scope
	format1  = 1
)

// ErrForged: the handle was not made by this server with this key.
var ErrForged = errors.New("export: not a handle of this server")

// ErrGone: the handle is genuine, but its export is no longer offered, or shows another directory or
// another file system than the one that the handle was made in.
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

// slot returns the cache slot for a handle. body is the part of the handle before the seal.
func (s *sealer) slot(body []byte) *atomic.Pointer[opened] {
	return &s.cache[maphash.Bytes(s.seed, body)%cacheSlots]
}

// opened is a handle whose seal is genuine for a scope. It does not change.
type opened struct {
	n      uint8
	sealed [MaxSealed]byte
	id     uint32
	scope  vfs.Scope
	set    *set // the set from which Export was taken
	Opened
}

func (o *opened) body() []byte { return o.sealed[:o.n-sealSize] }
func (o *opened) seal() []byte { return o.sealed[o.n-sealSize : o.n] }

// asleep reports whether o's export is a mount whose file system was closed.
func (o *opened) asleep() bool { return o.Export.mount != nil && o.Export.use.retired.Load() }

// Opened is the export and the file that a genuine handle names. It does not change.
type Opened struct {
	Export *Export
	Handle vfs.Handle
}

// Proven reports whether the handle is known to be genuine. A handle in a mount whose file system was
// not open yet is not known to be genuine until AwakeFor returns the mount's export.
func (o *Opened) Proven() bool { return !o.Export.unknown }

func newSealer(key [KeySize]byte) *sealer {
	return &sealer{
		seed: maphash.MakeSeed(),
		macs: sync.Pool{New: func() any { return &mac{Hash: hmac.New(sha256.New, key[:])} }},
	}
}

type mac struct {
	hash.Hash
	sum    [sha256.Size]byte
	scoped [sha256.Size - markSize + len(vfs.Scope{})]byte
}

// seal appends to b the seal of b[start:] in a scope. The scope is not in the handle, so that it costs no
// room there. The first markSize bytes are from the HMAC of b[start:], and show that this server made the
// handle. The others are from a digest of the rest of that HMAC, which is secret, and of the scope. If the
// scope is zero, all are from the HMAC.
func (s *sealer) seal(b []byte, start int, scope *vfs.Scope) []byte {
	m := s.macs.Get().(*mac)
	m.Reset()
	m.Write(b[start:])
	sum := m.Sum(m.sum[:0])
	if *scope != (vfs.Scope{}) {
		copy(m.scoped[copy(m.scoped[:], sum[markSize:]):], scope[:])
		again := sha256.Sum256(m.scoped[:])
		copy(sum[markSize:], again[:])
	}
	b = append(b, sum[:sealSize]...)
	s.macs.Put(m)
	return b
}

// check computes o's seal again. It returns ErrForged if this server did not make the handle, and ErrGone
// if it made it in another scope.
func (s *sealer) check(o *opened, scope *vfs.Scope) error {
	var buf [MaxSealed]byte
	again := s.seal(append(buf[:0], o.body()...), 0, scope)
	is, seal := o.seal(), again[len(again)-sealSize:]
	switch {
	case !hmac.Equal(is[:markSize], seal[:markSize]):
		return ErrForged
	case !hmac.Equal(is, seal):
		return ErrGone
	}
	return nil
}

// Seal appends to b the handle that a client gets for the file h of export e.
func (t *Table) Seal(b []byte, e *Export, h vfs.Handle) []byte {
	start := len(b)
	b = append(b, format1)
	b = binary.BigEndian.AppendUint32(b, e.ID)
	b = h.Append(b)
	body := b[start:]
	slot := t.seal.slot(body)
	if o := slot.Load(); o != nil && o.scope == e.scope && string(o.body()) == string(body) {
		return append(b, o.seal()...)
	}
	b = t.seal.seal(b, start, &e.scope)
	o := &opened{n: uint8(len(b) - start), id: e.ID, scope: e.scope, Opened: Opened{Handle: h}}
	copy(o.sealed[:], b[start:])
	if now := t.current.Load(); !e.unknown {
		o.set, o.Export = now, now.find(e.ID)
		t.keep(slot, o)
	}
	return b
}

// keep stores o in its cache slot if its export is there and has o's scope.
func (t *Table) keep(slot *atomic.Pointer[opened], o *opened) bool {
	if e := o.Export; e == nil || e.unknown || e.scope != o.scope {
		return false
	}
	slot.Store(o)
	return true
}

// Find checks a client's handle and returns the export and file that it names, or ErrForged or ErrGone.
// If Opened.Proven is false, the handle may still turn out to be forged or stale: see AwakeFor. Find does
// not check that the client may use the export.
func (t *Table) Find(sealed []byte) (*Opened, error) {
	if len(sealed) <= headSize+sealSize || len(sealed) > MaxSealed || sealed[0] != format1 {
		return nil, ErrForged
	}
	body, seal := sealed[:len(sealed)-sealSize], sealed[len(sealed)-sealSize:]
	slot := t.seal.slot(body)
	o := slot.Load()
	if o == nil || string(o.body()) != string(body) || !hmac.Equal(o.seal(), seal) {
		o = nil
	} else if o.set == t.current.Load() && !o.asleep() {
		return &o.Opened, nil
	}
	return t.find(slot, sealed, o)
}

// find is Find for a handle that is not in the cache, or whose export may have changed. before is the
// cached handle, or nil.
func (t *Table) find(slot *atomic.Pointer[opened], sealed []byte, before *opened) (*Opened, error) {
	body := sealed[:len(sealed)-sealSize]
	o := &opened{n: uint8(len(sealed)), id: binary.BigEndian.Uint32(body[1:]), set: t.current.Load()}
	copy(o.sealed[:], sealed)
	o.Handle, _ = vfs.MakeHandle(body[headSize:]) // Find has checked the length
	e := o.set.find(o.id)
	if e != nil {
		o.scope = e.scope
	}
	if before == nil || before.scope != o.scope {
		switch err := t.seal.check(o, &o.scope); {
		case err == ErrGone && e != nil && e.unknown:
			o.Export = e.mount.unproven(o)
			return &o.Opened, nil
		case err != nil:
			return nil, err
		}
	}
	if e == nil {
		return nil, ErrGone
	}
	o.Export = e
	t.keep(slot, o)
	return &o.Opened, nil
}
