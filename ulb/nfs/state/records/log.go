package records

import (
	"cmp"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// A file begins with a head: the magic text, the version of the format, the length that is known to be on
// stable storage, the checksum up to that length, and a checksum of the head itself. The head is smaller
// than a sector of any disk, so that a crash never leaves half of it.
const (
	magic    = "nfsrdmad records"
	version  = 2 // version 1 has changePut1 and changeRemove1 instead of changePut and changeRemove
	headSize = len(magic) + 4 + 8 + 4 + 4
)

// Transactions follow the head. Each is the length of its changes (4 bytes), a checksum of everything from
// the first transaction on (4 bytes), and the changes.
const transactionHead = 8

// The kinds of changes in a transaction.
const (
	changeStarts = 'S' // the number of starts of the server
	changePut    = 'C' // a record that is new or replaced
	changeRemove = 'D' // a record that is removed

	changePut1    = 'P' // a record that replaces all of its kind and owner
	changeRemove1 = 'R' // all records of a kind and owner are removed
)

// Flags in a client's record. The bits from firstHeld on are state.Record.Held without HeldApart, which has a flag of its
// own: an earlier version keeps all eight bits from firstHeld on of a record that it replaces, although it does not know what
// they mean, and drops those above. So what it writes is never taken for a record that tells opens and locks apart. All other
// bits are 0.
const (
	flagRevoked    = 1 << iota // state.Record.Revoked
	flagGuarded                // state.Record.Guarded
	flagProven                 // state.Record.Proven
	flagPrivileged             // state.Record.Privileged

	firstHeld = 8
	flagApart = 1 << 16 // state.HeldApart
	// The bits from firstKept on are state.Record.Kept. An earlier version takes the client to keep nothing.
	firstKept = 17

	heldBits = state.HeldOpens | state.HeldDenials | state.HeldLocks
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A key identifies a client: see state.Record.By.
type key struct {
	kind       state.ClientKind
	owner      string
	proven     bool
	address    netip.Addr
	privileged bool
}

func keyOf(r *state.Record) key {
	k := key{kind: r.Kind, owner: r.Owner}
	k.proven, k.address, k.privileged = r.By()
	return k
}

// content is the decoded content of a Store's file: the number of starts, and the records.
type content struct {
	starts uint32
	all    map[key]state.Record
}

func appendHead(b []byte, length int64, sum uint32) []byte {
	from := len(b)
	b = append(b, magic...)
	b = binary.BigEndian.AppendUint32(b, version)
	b = binary.BigEndian.AppendUint64(b, uint64(length))
	b = binary.BigEndian.AppendUint32(b, sum)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b[from:], castagnoli))
}

// appendTransaction appends a transaction with these changes. sum is the checksum of the log before it,
// and the second result that of the log with it.
func appendTransaction(b, changes []byte, sum uint32) ([]byte, uint32) {
	length := binary.BigEndian.AppendUint32(nil, uint32(len(changes)))
	sum = crc32.Update(crc32.Update(sum, castagnoli, length), castagnoli, changes)
	b = append(b, length...)
	b = binary.BigEndian.AppendUint32(b, sum)
	return append(b, changes...), sum
}

func appendString(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
}

func appendStarts(b []byte, n uint32) []byte {
	return binary.BigEndian.AppendUint32(append(b, changeStarts), n)
}

func appendPut(b []byte, r *state.Record) []byte {
	flags := uint32(r.Held&heldBits)<<firstHeld | uint32(r.Kept&heldBits)<<firstKept
	if r.Held&state.HeldApart != 0 {
		flags |= flagApart
	}
	if r.Revoked {
		flags |= flagRevoked
	}
	if r.Guarded {
		flags |= flagGuarded
	}
	flags |= flagsOf(r.Proven, r.Privileged)
	address, _ := r.Address.MarshalBinary() // it never fails
	b = appendString(binary.BigEndian.AppendUint32(append(b, changePut), uint32(r.Kind)), r.Owner)
	b = appendString(appendString(b, r.Principal), string(address))
	b = binary.BigEndian.AppendUint64(b, uint64(r.Lease))
	return binary.BigEndian.AppendUint32(b, flags)
}

func flagsOf(proven, privileged bool) (flags uint32) {
	if proven {
		flags |= flagProven
	}
	if privileged {
		flags |= flagPrivileged
	}
	return flags
}

func appendRemove(b []byte, k key) []byte {
	address, _ := k.address.MarshalBinary() // it never fails
	b = appendString(binary.BigEndian.AppendUint32(append(b, changeRemove), uint32(k.kind)), k.owner)
	return binary.BigEndian.AppendUint32(appendString(b, string(address)), flagsOf(k.proven, k.privileged))
}

// whole encodes c as a complete file, and returns it with its final checksum.
func (c *content) whole() ([]byte, uint32) {
	changes := appendStarts(nil, c.starts)
	for _, r := range c.list() {
		changes = appendPut(changes, &r)
	}
	b, sum := appendTransaction(make([]byte, headSize, headSize+transactionHead+len(changes)), changes, 0)
	appendHead(b[:0], int64(len(b)), sum)
	return b, sum
}

// list returns all records, in an order that depends on nothing else.
func (c *content) list() []state.Record {
	return slices.SortedFunc(maps.Values(c.all), func(a, b state.Record) int {
		j, k := keyOf(&a), keyOf(&b)
		return cmp.Or(cmp.Compare(j.kind, k.kind), cmp.Compare(j.owner, k.owner),
			cmp.Compare(flagsOf(j.proven, j.privileged), flagsOf(k.proven, k.privileged)), j.address.Compare(k.address))
	})
}

var errCutShort = errors.New("it is cut short")

// errLater: the file is not damaged, but this version cannot read it.
var errLater = errors.New("it is of a later version")

// An end is where the transactions of a file end: the offset, and the checksum up to there.
type end struct {
	at  int64
	sum uint32
}

// isLog reports whether a file with the content b has the format of this package. If b is shorter than magic, the bytes
// that are there decide. A file of another format may be a database of an earlier version of the server.
func isLog(b []byte) bool { return strings.HasPrefix(magic, string(b[:min(len(b), len(magic))])) }

// read decodes a file. Up to the length in the head every transaction must be complete. One more may
// follow, which the Store may not have reported as done: read uses it only if it is complete.
func read(b []byte) (c content, to end, err error) {
	c.all = make(map[key]state.Record)
	if len(b) < headSize {
		return c, to, errCutShort
	}
	head := cursor{b: b[len(magic):headSize]}
	v, length, marked := head.uint32(), head.uint64(), head.uint32()
	switch {
	case crc32.Checksum(b[:headSize-4], castagnoli) != head.uint32():
		return c, to, errors.New("the checksum of its head is wrong: the file is damaged")
	case v < 1 || v > version:
		return c, to, errLater
	case length > uint64(len(b)):
		return c, to, errCutShort
	}
	at, sum := uint64(headSize), uint32(0)
	for at < length || sum == marked {
		changes, next, ok := transaction(b[at:], sum)
		if !ok {
			break
		}
		if err := c.apply(changes); err != nil {
			return c, to, err
		}
		before := at
		at, sum = at+transactionHead+uint64(len(changes)), next
		if before >= length {
			return c, end{int64(at), sum}, nil
		}
	}
	if at != length || sum != marked {
		return c, to, errors.New("its content does not match its checksum")
	}
	return c, end{int64(at), sum}, nil
}

// transaction decodes the first transaction in b. sum is the checksum of the log before it, and next that
// of the log with it. ok is false if the transaction is cut short or damaged.
func transaction(b []byte, sum uint32) (changes []byte, next uint32, ok bool) {
	at := cursor{b: b}
	n, want := at.uint32(), at.uint32()
	if at.short || uint64(n) > uint64(len(at.b)) {
		return nil, 0, false
	}
	changes = at.b[:n]
	next = crc32.Update(crc32.Update(sum, castagnoli, b[:4]), castagnoli, changes)
	return changes, next, next == want
}

var errChange = errors.New("it contains a change that cannot be decoded")

// apply applies the changes of one transaction.
func (c *content) apply(changes []byte) error {
	at := cursor{b: changes}
	for len(at.b) > 0 && !at.short {
		switch kind := at.bytes(1); string(kind) {
		case string(changeStarts):
			c.starts = at.uint32()
		case string(changePut), string(changePut1):
			r := state.Record{Kind: state.ClientKind(at.uint32()), Owner: at.string(), Principal: at.string()}
			r.Address = at.address()
			r.Lease = time.Duration(at.uint64())
			flags := at.uint32()
			r.Revoked, r.Guarded, r.Held = flags&flagRevoked != 0, flags&flagGuarded != 0, state.Held(flags>>firstHeld)&heldBits
			r.Kept = state.Held(flags>>firstKept) & heldBits
			if flags&flagApart != 0 {
				r.Held |= state.HeldApart
			}
			r.Proven, r.Privileged = flags&flagProven != 0, flags&flagPrivileged != 0
			if string(kind) == string(changePut1) {
				c.removeAll(r.Kind, r.Owner)
				r.Proven = provenBefore(r.Principal)
			}
			c.all[keyOf(&r)] = r
		case string(changeRemove1):
			c.removeAll(state.ClientKind(at.uint32()), at.string())
		case string(changeRemove):
			k := key{kind: state.ClientKind(at.uint32()), owner: at.string(), address: at.address()}
			flags := at.uint32()
			k.proven, k.privileged = flags&flagProven != 0, flags&flagPrivileged != 0
			delete(c.all, k)
		default:
			return errChange
		}
	}
	if at.short {
		return errChange
	}
	return nil
}

// removeAll removes all records of a kind and owner.
func (c *content) removeAll(kind state.ClientKind, owner string) {
	maps.DeleteFunc(c.all, func(k key, _ state.Record) bool { return k.kind == kind && k.owner == owner })
}

// provenBefore reports whether the RPC flavor proved a principal in a record of version 1 or of bbolt, which
// do not say so: see nfs4.PrincipalOf.
func provenBefore(principal string) bool { return strings.HasPrefix(principal, "gss ") }

// A cursor reads values from b. short is true if b ended before the end of a value, or a value is not valid.
type cursor struct {
	b     []byte
	short bool
}

func (c *cursor) bytes(n uint32) []byte {
	if uint64(n) > uint64(len(c.b)) {
		c.short, c.b = true, nil
		return nil
	}
	b := c.b[:n]
	c.b = c.b[n:]
	return b
}

func (c *cursor) uint32() uint32 {
	if b := c.bytes(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (c *cursor) uint64() uint64 {
	if b := c.bytes(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// address reads what netip.Addr.MarshalBinary wrote.
func (c *cursor) address() (a netip.Addr) {
	if b := c.bytes(c.uint32()); a.UnmarshalBinary(b) != nil {
		c.short, c.b = true, nil
	}
	return a
}

func (c *cursor) string() string { return string(c.bytes(c.uint32())) }
