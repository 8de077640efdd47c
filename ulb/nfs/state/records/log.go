package records

import (
	"cmp"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"maps"
	"slices"
	"time"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// A file begins with a head: the magic text, the version of the format, the length that is known to be on
// stable storage, the checksum up to that length, and a checksum of the head itself. The head is smaller
// than a sector of any disk, so that a crash never leaves half of it.
const (
	magic    = "nfsrdmad records"
	version  = 1
	headSize = len(magic) + 4 + 8 + 4 + 4
)

// Transactions follow the head. Each is the length of its changes (4 bytes), a checksum of everything from
// the first transaction on (4 bytes), and the changes.
const transactionHead = 8

// The kinds of changes in a transaction.
const (
	changeStarts = 'S' // the number of starts of the server
	changePut    = 'P' // a record that is new or replaced
	changeRemove = 'R' // a record that is removed
)

// Flags in a client's record. The bits from firstHeld on are state.Record.Held; all others are 0.
const (
	flagRevoked = 1 << iota // state.Record.Revoked
	flagGuarded             // state.Record.Guarded

	firstHeld = 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A key identifies a client.
type key struct {
	minor uint32
	owner string
}

func keyOf(r *state.Record) key { return key{r.Minor, r.Owner} }

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
	flags := uint32(r.Held) << firstHeld
	if r.Revoked {
		flags |= flagRevoked
	}
	if r.Guarded {
		flags |= flagGuarded
	}
	address, _ := r.Address.MarshalBinary() // it never fails
	b = appendString(binary.BigEndian.AppendUint32(append(b, changePut), r.Minor), r.Owner)
	b = appendString(appendString(b, r.Principal), string(address))
	b = binary.BigEndian.AppendUint64(b, uint64(r.Lease))
	return binary.BigEndian.AppendUint32(b, flags)
}

func appendRemove(b []byte, k key) []byte {
	return appendString(binary.BigEndian.AppendUint32(append(b, changeRemove), k.minor), k.owner)
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

// list returns all records, ordered by minor version and then by Owner.
func (c *content) list() []state.Record {
	return slices.SortedFunc(maps.Values(c.all), func(a, b state.Record) int {
		return cmp.Or(cmp.Compare(a.Minor, b.Minor), cmp.Compare(a.Owner, b.Owner))
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
		return c, to, errors.New("its head is not whole")
	case v != version:
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
		return c, to, errors.New("what is in it is not what its checksum is of")
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
		case string(changePut):
			r := state.Record{Minor: at.uint32(), Owner: at.string(), Principal: at.string()}
			if address := at.string(); r.Address.UnmarshalBinary([]byte(address)) != nil {
				return errChange
			}
			r.Lease = time.Duration(at.uint64())
			flags := at.uint32()
			r.Revoked, r.Guarded, r.Held = flags&flagRevoked != 0, flags&flagGuarded != 0, state.Held(flags>>firstHeld)
			c.all[keyOf(&r)] = r
		case string(changeRemove):
			delete(c.all, key{at.uint32(), at.string()})
		default:
			return errChange
		}
	}
	if at.short {
		return errChange
	}
	return nil
}

// A cursor reads values from b. short is true if b ended before the end of a value.
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

func (c *cursor) string() string { return string(c.bytes(c.uint32())) }
