package disk

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

func sectors(n int, b byte) []byte { return bytes.Repeat([]byte{b}, n*sectorSize) }

// A flushed write survives a power cut. Of the other writes, only the chosen survivors do.
func TestPlatterKeepsFlushedWrites(t *testing.T) {
	p := newPlatter(1 << 20)
	p.write(sectors(8, 'a'), 0)
	p.flush()
	p.write(sectors(8, 'b'), 0)
	p.write(sectors(3, 'c'), 4096-sectorSize)
	for s, allowed := range map[survivors]string{nothing: "a", anything: "abc\x00", all: "bc"} {
		left := p.cut(s, rand.New(rand.NewPCG(1, 2)))
		b := make([]byte, 6*4096)
		left.read(b, 0)
		for i := range 8 {
			sector := b[i*sectorSize : (i+1)*sectorSize]
			if !bytes.ContainsRune([]byte(allowed), rune(sector[0])) || !bytes.Equal(sector, sectors(1, sector[0])) {
				t.Errorf("%v survives: sector %d begins with %q", s, i, sector[0])
			}
		}
		if after := b[4096 : 4096+2*sectorSize]; s == nothing && !bytes.Equal(after, sectors(2, 0)) || s == all && !bytes.Equal(after, sectors(2, 'c')) {
			t.Errorf("%v survives: behind it is %q", s, after[0])
		}
	}
	seen := make([]byte, sectorSize)
	if p.read(seen, 0); seen[0] != 'b' {
		t.Errorf("before the cut %q is read", seen[0])
	}
}

// register.check finds each sector of stable data that a disk has lost.
func TestRegisterJudges(t *testing.T) {
	verifier, other := [8]byte{1}, [8]byte{2}
	var r register
	for _, v := range []value{1, 2, 3} {
		r.send(v)
	}
	r.settle(1)
	r.answeredUnstable(2, verifier)
	holds := func(what string, b []byte, allowed bool) {
		t.Helper()
		if wrong := r.check(b, 7, 5); (wrong == "") != allowed {
			t.Errorf("%s: %q", what, wrong)
		}
	}
	torn := append(value(1).slot(7, 5)[:slotSize/2], value(3).slot(7, 5)[slotSize/2:]...)
	holds("the stable value", value(1).slot(7, 5), true)
	holds("a later one", value(3).slot(7, 5), true)
	holds("a torn one", torn, true)
	holds("none", make([]byte, slotSize), false)
	holds("another slot's", value(1).slot(7, 6), false)
	if !r.commit(other) {
		t.Error("a changed verifier tells nothing")
	}
	holds("what was not committed", value(1).slot(7, 5), true)
	r.answeredUnstable(2, verifier)
	if r.commit(verifier) {
		t.Error("the same verifier tells of a loss")
	}
	holds("what a COMMIT superseded", value(1).slot(7, 5), false)
	holds("what was committed", value(2).slot(7, 5), true)
	holds("what a COMMIT superseded, in part", torn, false)
}
