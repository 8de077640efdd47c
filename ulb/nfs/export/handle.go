package export

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"hash/maphash"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Sizes of a sealed handle, in bytes: a head, the file system's handle, and the seal.
const (
	KeySize = 32
	// MaxSealed is the length of the longest sealed handle: NFSv3 carries no more (RFC 1813
	// §2.4).
	MaxSealed = headSize + vfs.MaxHandle + sealSize

	headSize = 1 + 4 // format, export
	sealSize = 12    // truncated HMAC-SHA-256 of all before it (RFC 2104 §5)
	format1  = 1
)

// ErrForged: the handle was not made by this server with this key.
var ErrForged = errors.New("export: not a handle of this server")

// ErrGone: the handle is genuine, but its export is no longer offered.
var ErrGone = errors.New("export: handle of an export that is gone")

// cacheSlots is the number of handles that fit in the direct-mapped cache. The cache has handles
// that the server sealed lately, or whose seals it found to be genuine.
const cacheSlots = 8192

// sealer makes and checks seals. The check of a handle in its cache costs one hash and one
// comparison.
type sealer struct {
	macs  sync.Pool
	seed  maphash.Seed
	cache [cacheSlots]atomic.Pointer[opened]
}

// slot returns the cache slot for a handle. body is the part of the handle that the seal
// covers.
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

// seal appends the seal to b. The seal covers the head and the handle: b[start:].
func (s *sealer) seal(b []byte, start int) []byte {
	m := s.macs.Get().(*mac)
	m.Reset()
	m.Write(b[start:])
	b = append(b, m.Sum(m.sum[:0])[:sealSize]...)
	s.macs.Put(m)
	return b
}

// Seal appends to b the handle that a client gets for the file h of export e: at most MaxSealed
// bytes.
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

// Find checks a client's handle and returns the export and file that it names. It returns ErrForged
// for a handle that this server did not make, and ErrGone if the export is no longer offered. It
// does not check that the client may use the export.
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
		// The cached export belongs to an earlier set of exports, or is a mount whose file
		// system was closed: look it up again.
		again := *o
		o = t.keep(slot, &again, now)
	}
	if o.Export == nil {
		return nil, ErrGone
	}
	return &o.Opened, nil
}

// keep looks up the export of o in the current set, and stores o in its cache slot. No other
// goroutine has o yet.
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

// Groups looks up the supplementary groups of users, for exports that manage them. Its
// methods may be called from any goroutine and do not block.
type Groups interface {
	// Find returns the groups of a user for a call of a client. The caller must not change them. A
	// user that does not exist has no groups. If the groups are not known yet, the error is a
	// Pending, or vfs.ErrDelay if the client should repeat the call.
	Find(client netip.Addr, uid uint32) ([]uint32, error)
	// Delays reports whether Find would return vfs.ErrDelay, by the answers known so far. It
	// starts no look-up.
	Delays(uid uint32) bool
}

// A Pending is the error of a look-up that is still running.
type Pending interface {
	error
	// Await calls resume once, as soon as the caller should try again: on any goroutine, perhaps
	// before Await returns. resume must not block.
	Await(resume func())
}

// SetGroups sets g as the source of users' groups. The server calls it before the first Replace.
// Without it, Replace refuses an export that manages groups.
func (t *Table) SetGroups(g Groups) { t.groups = g }

// Looked holds the groups that Look has found for the caller of one call. They hold for all exports
// that the call enters. found is false until Look has stored groups.
type Looked struct {
	groups []uint32
	found  bool
}

// manages reports whether the server has to look up the groups of a caller. That is so if the
// export manages groups, the caller uses AUTH_SYS, which proves no groups, and is not squashed.
func (e *Export) manages(c *rpc.Cred) bool {
	return e.ManageGIDs && c.Flavor == rpc.AuthSys && !c.Anonymous && e.Squash != AllSquash && (e.Squash != RootSquash || c.UID != 0)
}

// Look looks up the groups of a caller in an export, if Identify needs them (manages), and stores
// them in l. It returns the error of Groups.Find, or vfs.ErrDelay for a caller that cannot be
// identified at present. If it returns nil, Identify may be called.
func (t *Table) Look(e *Export, c *rpc.Conn, cred *rpc.Cred, l *Looked) (err error) {
	if e.unsure(cred) {
		return vfs.ErrDelay
	}
	if l.found || !e.manages(cred) {
		return nil
	}
	l.groups, err = t.groups.Find(c.Peer.Addr(), cred.UID)
	l.found = err == nil
	return err
}

// Refuses reports whether the export refuses a caller because the caller's principal has no
// account here. The program must still allow operations that show only the export's root: a
// client needs them when it mounts, with the credential of its machine (RFC 2623 §2.3.2).
func (e *Export) Refuses(c *rpc.Cred) bool { return e.RequireAccount && c.Anonymous && !c.Unsure }

// unsure reports whether the caller's identity matters and cannot be determined at present.
func (e *Export) unsure(c *rpc.Cred) bool {
	return c.Unsure && (e.Squash != AllSquash || e.RequireAccount)
}

// OnRefusedPrincipal sets a function that the Table calls for each call refused because of Refuses.
// f runs on the goroutine that serves the call, and must not block. The server calls
// OnRefusedPrincipal before it uses the Table.
func (t *Table) OnRefusedPrincipal(f func(c *rpc.Conn, e *Export, principal string)) {
	t.refusedPrincipal = f
}

// RefusedPrincipal reports a call that was refused because of its principal: it calls the function
// that OnRefusedPrincipal has set, if any.
func (t *Table) RefusedPrincipal(c *rpc.Conn, e *Export, cred *rpc.Cred) {
	if t.refusedPrincipal != nil {
		t.refusedPrincipal(c, e, cred.Principal)
	}
}

// Delays reports whether Look would return vfs.ErrDelay, by the answers known so far. If so,
// the server need not fetch data for the call.
func (t *Table) Delays(e *Export, cred *rpc.Cred) bool {
	return e.unsure(cred) || e.manages(cred) && t.groups.Delays(cred.UID)
}

// Identify stores in *as the user and the groups that the file system of this export sees instead
// of those of the caller. The server calls Look before, with the same l. as.Groups may share memory
// with c.Groups.
func (e *Export) Identify(c *rpc.Cred, l *Looked, as *vfs.Cred) {
	if e.Squash == AllSquash || c.Flavor == rpc.AuthNone || c.Anonymous {
		*as = vfs.Cred{UID: e.AnonUID, GID: e.AnonGID}
		return
	}
	*as = vfs.Cred{UID: c.UID, GID: c.GID, Groups: c.Groups}
	if e.manages(c) {
		as.Groups = l.groups
	}
	if e.Squash != RootSquash {
		return
	}
	if as.UID == 0 {
		// Group 0 and the other groups of root are squashed too.
		*as = vfs.Cred{UID: e.AnonUID, GID: e.AnonGID}
		return
	}
	if as.GID == 0 {
		as.GID = e.AnonGID
	}
	if slices.Contains(as.Groups, 0) {
		groups := make([]uint32, 0, len(as.Groups))
		for _, g := range as.Groups {
			if g == 0 {
				g = e.AnonGID
			}
			groups = append(groups, g)
		}
		as.Groups = groups
	}
}
