package state

import (
	"bytes"
	"hash/maphash"
	"testing"
)

// A closed stateid is never reused, even after all generations of its slot were used.
func TestStateidsNeverComeAgain(t *testing.T) {
	m := newManager(t)
	c := newClient(m, 1, "client")
	seen := map[[otherSize]byte]bool{}
	once := func() StateID {
		id := open(t, m, c, "owner", fileKey(1), AccessRead, 0)
		if seen[id.Other] {
			t.Fatalf("%x came again", id.Other)
		}
		seen[id.Other] = true
		if _, s := m.CloseOpen(&Ref{ID: id, Client: c, Key: fileKey(1)}, false); s != ok {
			t.Fatal(s)
		}
		return id
	}
	first := once()
	index := slotOf(&first.Other)
	for range 100 {
		once()
	}
	m.mu.Lock()
	m.files.slab.slot(index).generation = 1<<32 - 3
	m.mu.Unlock()
	for range 10 {
		once()
	}
	nothingLeft(t, m)
}

func TestSeqidsBeginAgain(t *testing.T) {
	m := newManager(t)
	c := newClient(m, 1, "client")
	id := open(t, m, c, "owner", fileKey(1), AccessRead, 0)
	s, _ := m.Find(&id, c)
	s.seqid.Store(1<<32 - 2)
	for _, want := range []uint32{1<<32 - 1, 1, 2} { // 0 is not a valid seqid in a stateid of an open
		if id = open(t, m, c, "owner", fileKey(1), AccessRead, 0); id.Seqid != want {
			t.Errorf("%d, not %d", id.Seqid, want)
		}
	}
	for seqid, want := range map[uint32]Verdict{
		1<<32 - 1: OldID, 1: OldID, 2: ok, 0: ok, 3: UnknownID, 5000: UnknownID,
	} {
		id.Seqid = seqid
		if _, s := m.Find(&id, c); s != want {
			t.Errorf("%d: %v, not %v", seqid, s, want)
		}
	}
}

// In minor version 0 the server distinguishes an expired stateid from a stateid that never existed
// and from a stateid of an earlier run of the server.
func TestStateidsOfMinorVersion0(t *testing.T) {
	m := newManager(t)
	c := newClient(m, 0, "client")
	o, s := m.OwnerOf(c, []byte("owner"), false)
	if s != ok {
		t.Fatal(s)
	}
	opening, s := m.Open(&OpenArgs{Client: c, Owner: o, Key: fileKey(1), Access: AccessRead})
	if s != ok || !opening.Confirm {
		t.Fatal(s, opening)
	}
	ref := Ref{ID: opening.ID, Key: fileKey(1)}
	want := func(what string, want Verdict) {
		t.Helper()
		if _, s := m.Resolve(&ref, 0); s != want {
			t.Errorf("%s: %v, not %v", what, s, want)
		}
	}
	want("not confirmed", UnknownID)
	if ref.ID, s = m.ConfirmOpen(&ref); s != ok {
		t.Fatal(s)
	}
	want("confirmed", ok)
	if _, s := m.ConfirmOpen(&ref); s != UnknownID {
		t.Errorf("confirmed twice: %v", s)
	}
	ref.ID.Seqid = 0 // 0 has no special meaning in minor version 0
	want("the seqid before the first", OldID)
	ref.ID.Seqid = 2
	ref.ID.Other[0] ^= 1
	want("of another life", FormerID)
	ref.ID.Other[0] ^= 1
	m.removeNow(c)
	want("taken away", ExpiredID)
	ref.ID.Other[11]--
	want("one that never was", UnknownID)
	nothingLeft(t, m)
}

// Revoke ends all state in one file system, and no state in others.
func TestRevoke(t *testing.T) {
	m := newManager(t)
	c := newClient(m, 1, "client")
	there, here := fileKey(1), fileKey(1)
	there.Domain = "another"
	var count openCount
	for _, key := range []FileKey{there, here} {
		if _, s := m.Open(&OpenArgs{Client: c, OwnerName: []byte("owner"), Key: key, Access: AccessRead, File: count.open()}); s != ok {
			t.Fatal(s)
		}
	}
	m.Revoke("another")
	if u := m.Usage(); u.Opens != 1 || u.Files != 1 || count.n.Load() != 1 {
		t.Errorf("%+v, %d files are open", u, count.n.Load())
	}
}

// The next stateid of a slot cannot be guessed from the earlier ones.
func TestStateIDsAreNotGuessed(t *testing.T) {
	m := newManager(t)
	c := newClient(m, 1, "client")
	near := 0
	var before [otherSize]byte
	seen := map[[otherSize]byte]bool{}
	for range 1000 {
		id := open(t, m, c, "owner", fileKey(1), AccessRead, 0)
		if seen[id.Other] {
			t.Fatalf("%x comes again", id.Other)
		}
		seen[id.Other] = true
		if bytes.Equal(id.Other[6:10], before[6:10]) {
			near++
		}
		before = id.Other
		if _, s := m.CloseOpen(&Ref{ID: id, Client: c, Key: fileKey(1)}, false); s != ok {
			t.Fatal(s)
		}
	}
	if near > 5 {
		t.Errorf("%d of 1000 stateids are near the one before", near)
	}
}

// The scrambler maps no two numbers to the same number.
func TestScrambleIsAPermutation(t *testing.T) {
	s := scrambler{maphash.MakeSeed()}
	for _, bits := range []uint{idBits, secretBits} {
		seen := map[uint64]bool{}
		for n := range uint64(1 << 18) {
			x := s.of(7, n*16383, bits)
			if seen[x] || x>>bits != 0 {
				t.Fatalf("%#x comes twice, or is too long", x)
			}
			seen[x] = true
		}
	}
}
