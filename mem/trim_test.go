package mem

import (
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// resident returns the number of the arena's bytes that occupy memory, from the kernel.
func resident(t *testing.T, p *Pool) int64 {
	t.Helper()
	vec := make([]byte, len(p.arena)/PageSize)
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&p.arena[0])),
		uintptr(len(p.arena)), uintptr(unsafe.Pointer(&vec[0])))
	if errno != 0 {
		t.Fatal(errno)
	}
	var n int64
	for _, v := range vec {
		n += int64(v&1) * PageSize
	}
	return n
}

// ordinaryPages prevents huge pages, so that resident pages can be counted.
func ordinaryPages(t *testing.T, p *Pool) {
	t.Helper()
	if err := unix.Madvise(p.arena, unix.MADV_NOHUGEPAGE); err != nil && err != unix.EINVAL {
		t.Fatal(err)
	}
}

func touch(b *Buffer) {
	m := b.Bytes()
	for i := 0; i < len(m); i += PageSize {
		m[i] = 0xa5
	}
}

func TestTrimGivesFreePagesBack(t *testing.T) {
	p := newPool(t, 64*mib, 64*mib)
	ordinaryPages(t, p)
	if n := resident(t, p); n != 0 {
		t.Fatalf("a new pool occupies %d bytes", n)
	}
	s := p.NewShare()
	keep, _ := s.TryGet(mib + PageSize)
	gone, _ := s.TryGet(32 * mib)
	touch(keep)
	touch(gone)
	gone.Release()
	if n := resident(t, p); n != 33*mib+PageSize {
		t.Fatalf("%d bytes resident", n)
	}
	if n := p.Trim(); n != 32*mib {
		t.Fatalf("Trim gave back %d bytes", n)
	}
	if n := resident(t, p); n != mib+PageSize {
		t.Fatalf("%d bytes resident after Trim", n)
	}
	if keep.Bytes()[mib] != 0xa5 {
		t.Fatal("Trim took memory that is in use")
	}
	if n := p.Trim(); n != 0 {
		t.Fatalf("a second Trim gave back %d bytes", n)
	}
	keep.Release()
	st := p.Stats()
	if st.Trimmed != 32*mib || st.Resident != mib+PageSize {
		t.Fatalf("%+v", st)
	}
}

// A pool that is in use keeps its pages; an idle one loses them after two intervals.
func TestHousekeepFollowsUse(t *testing.T) {
	p := newPool(t, 64*mib, 64*mib)
	ordinaryPages(t, p)
	s := p.NewShare()
	use := func(size int) {
		b, ok := s.TryGet(size)
		if !ok {
			t.Fatal("no memory")
		}
		touch(b)
		b.Release()
	}
	use(16 * mib)
	for range 3 {
		use(8 * mib)
		use(8 * mib)
		p.Housekeep()
	}
	if n := resident(t, p); n != 8*mib {
		t.Fatalf("%d bytes resident where 8 MiB are in use", n)
	}
	if n := p.Housekeep(); n != 0 {
		t.Fatalf("the first idle interval loses %d bytes", n)
	}
	if p.Housekeep(); resident(t, p) != 0 {
		t.Fatalf("%d bytes resident when idle", resident(t, p))
	}
}

// A device goes on using the pages of the arena that it was given, so they must stay.
func TestTrimLeavesPinnedArenaAlone(t *testing.T) {
	p := newPool(t, 4*mib, 4*mib)
	ordinaryPages(t, p)
	b, _ := p.NewShare().TryGet(mib)
	touch(b)
	b.Release()
	if err := p.OnArena(func([]byte) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if n := p.Trim(); n != 0 || resident(t, p) != mib {
		t.Fatalf("trimmed %d bytes, %d resident", n, resident(t, p))
	}
}

// OnArena waits for a Trim under way, and no later one starts.
func TestTrimAndOnArenaRace(t *testing.T) {
	for range 20 {
		p := newPool(t, 16*mib, 16*mib)
		// Cleanups run last first: without a device, Close unmaps the arena.
		t.Cleanup(func() { p.pinned = 0 })
		ordinaryPages(t, p)
		b, _ := p.NewShare().TryGet(16 * mib)
		touch(b)
		b.Release()
		var wg sync.WaitGroup
		wg.Go(func() { p.Trim() })
		wg.Go(func() {
			err := p.OnArena(func([]byte) error {
				before := resident(t, p)
				p.Trim()
				if after := resident(t, p); after != before {
					t.Errorf("%d bytes resident when shown to a device, %d afterwards", before, after)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
		wg.Wait()
	}
}
