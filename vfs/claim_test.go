package vfs_test

import (
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Claims agrees with a plain array that holds the mode of each byte.
func TestClaimsAgreeWithAnArray(t *testing.T) {
	const bytes = 40
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var c vfs.Claims
		var want [bytes + 1]vfs.ClaimMode // want[bytes] is the mode of every byte at or after offset 40
		for range 20 {
			start, length := uint64(random.IntN(bytes)), uint64(1+random.IntN(bytes))
			if start+length > bytes {
				length = vfs.ToEnd
			}
			mode := vfs.ClaimMode(random.IntN(3))
			if err := c.Set(start, length, mode); err != nil {
				t.Fatal(err)
			}
			for i := start; i <= bytes && (length == vfs.ToEnd || i < start+length); i++ {
				want[i] = mode
			}
			none := true
			for i, m := range want {
				none = none && m == vfs.ClaimNone
				_, toRead, _ := c.Against(uint64(i), 1, vfs.ClaimRead)
				_, toWrite, _ := c.Against(uint64(i), 1, vfs.ClaimWrite)
				if toRead != (m == vfs.ClaimWrite) || toWrite != (m != vfs.ClaimNone) {
					t.Fatalf("byte %d of mode %d stands against readers: %v, writers: %v", i, m, toRead, toWrite)
				}
			}
			if c.None() != none {
				t.Fatalf("nothing is claimed: %v, want %v", c.None(), none)
			}
		}
	}
}

func TestClaimsTellTheWholeRange(t *testing.T) {
	var c vfs.Claims
	for _, s := range []vfs.Claimed{{Start: 10, Length: 5, Mode: vfs.ClaimRead}, {Start: 15, Length: 5, Mode: vfs.ClaimRead}, {Start: 30, Length: vfs.ToEnd, Mode: vfs.ClaimWrite}} {
		if err := c.Set(s.Start, s.Length, s.Mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range []struct {
		start, length uint64
		mode          vfs.ClaimMode
		want          vfs.Claimed
	}{
		{0, 10, vfs.ClaimWrite, vfs.Claimed{}},
		{0, 11, vfs.ClaimWrite, vfs.Claimed{Start: 10, Length: 10, Mode: vfs.ClaimRead}},
		{0, 30, vfs.ClaimRead, vfs.Claimed{}},
		{12, vfs.ToEnd, vfs.ClaimRead, vfs.Claimed{Start: 30, Length: vfs.ToEnd, Mode: vfs.ClaimWrite}},
		{1<<64 - 1, 1, vfs.ClaimRead, vfs.Claimed{Start: 30, Length: vfs.ToEnd, Mode: vfs.ClaimWrite}},
	} {
		if got, found, err := c.Against(x.start, x.length, x.mode); got != x.want || found != (x.want.Mode != 0) || err != nil {
			t.Errorf("against %d+%d, mode %d: %+v, %v, %v; want %+v", x.start, x.length, x.mode, got, found, err, x.want)
		}
	}
	for _, bad := range [][2]uint64{{0, 0}, {5, 0}, {3, 1<<64 - 2}, {1<<64 - 1, 2}} {
		if err := c.Set(bad[0], bad[1], vfs.ClaimRead); err != syscall.EINVAL {
			t.Errorf("Set(%d, %d): %v", bad[0], bad[1], err)
		}
	}
}

// Set changes one claim among many in place, without allocating memory.
func TestClaimAmongManyIsChangedInPlace(t *testing.T) {
	var c vfs.Claims
	const n = 10_000
	for i := range uint64(n) {
		if err := c.Set(4*i, 2, vfs.ClaimWrite); err != nil {
			t.Fatal(err)
		}
	}
	if allocs := testing.AllocsPerRun(100, func() {
		for _, mode := range []vfs.ClaimMode{vfs.ClaimNone, vfs.ClaimRead, vfs.ClaimWrite} {
			if err := c.Set(2*n, 2, mode); err != nil {
				t.Fatal(err)
			}
		}
	}); allocs > 0 {
		t.Errorf("%v allocations", allocs)
	}
}
