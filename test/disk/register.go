package disk

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// slotSize is the size of a slot, and the least length of a WRITE, in bytes.
const slotSize = 4096

// A value identifies the content of a slot: its upper 32 bits are the number of the writer, its
// lower 32 bits the number of the writer's WRITE. The value 0 stands for zeros. Each sector of a
// slot contains the value and its place: the numbers of the file, the slot and the sector.
type value uint64

func (v value) String() string {
	if v == 0 {
		return "zeros"
	}
	return fmt.Sprintf("%d.%d", v>>32, uint32(v))
}

// fill fills b, one sector of a slot, with v.
func (v value) fill(b []byte, file, slot, sector int) {
	if v == 0 {
		clear(b)
		return
	}
	place := placeOf(file, slot, sector)
	binary.LittleEndian.PutUint64(b, uint64(v))
	binary.LittleEndian.PutUint64(b[8:], place)
	for i := 16; i < len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], (uint64(v)^place)*0x9e3779b97f4a7c15+uint64(i))
	}
}

func placeOf(file, slot, sector int) uint64 {
	return uint64(file)<<32 | uint64(slot)<<8 | uint64(sector)
}

// valueOf returns the value and the place (file, slot and sector) that a sector contains.
func valueOf(b []byte) (v value, place uint64) {
	return value(binary.LittleEndian.Uint64(b)), binary.LittleEndian.Uint64(b[8:])
}

// slot returns the content of a slot that has the value v.
func (v value) slot(file, slot int) []byte {
	b := make([]byte, slotSize)
	for i := range slotSize / sectorSize {
		v.fill(b[i*sectorSize:(i+1)*sectorSize], file, slot, i)
	}
	return b
}

// A register is the history of one slot, which has one writer. Each sector of the slot on the
// disk must have the settled value or a later one. The settled value is the last one that was
// answered as stable.
type register struct {
	settled value
	// later are the values that were sent after the settled one, in order, answered or not.
	later []value
	// unstable is the last value that was answered as UNSTABLE, and verifier is the verifier in
	// that answer.
	unstable value
	verifier [8]byte
	waits    bool // unstable needs a COMMIT
}

func (r *register) send(v value) { r.later = append(r.later, v) }

// settle records that v was answered as stable. The values that were sent before v are then no
// longer allowed on the disk.
func (r *register) settle(v value) {
	r.settled = v
	if i := slices.Index(r.later, v); i >= 0 {
		r.later = slices.Clone(r.later[i+1:])
	}
	r.waits = false
}

func (r *register) answeredUnstable(v value, verifier [8]byte) {
	r.unstable, r.verifier, r.waits = v, verifier, true
}

// commit records the answer to a COMMIT. If its verifier differs from that of the WRITE, the server
// has told the client that the value may be lost. commit then returns true, and the value need not
// be on the disk.
func (r *register) commit(verifier [8]byte) (told bool) {
	if !r.waits {
		return false
	}
	if r.verifier != verifier {
		r.waits = false
		return true
	}
	r.settle(r.unstable)
	return false
}

// check returns a description of the error in a slot of the disk, or "" if there is none.
func (r *register) check(b []byte, file, slot int) string {
	allowed := append([]value{r.settled}, r.later...)
	var want [sectorSize]byte
	for sector := range slotSize / sectorSize {
		have := b[sector*sectorSize : (sector+1)*sectorSize]
		if !slices.ContainsFunc(allowed, func(v value) bool {
			v.fill(want[:], file, slot, sector)
			return string(want[:]) == string(have)
		}) {
			return fmt.Sprintf("sector %d is of %v; stable is %v, sent later were %v",
				sector, value(binary.LittleEndian.Uint64(have)), r.settled, r.later)
		}
	}
	return ""
}
