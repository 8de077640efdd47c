package local

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// Whether there is memory for the names of a directory or not, and whatever their number: the parts in which
// namesAhead reads it have each name once, in the order of the cookies. A part has at most the room that the
// memory allows, and at least half of it unless it is the last. The memory is given back.
func TestPartsOfADirectoryHaveEachNameOnce(t *testing.T) {
	root := t.TempDir()
	if err := unix.Mount("local-test", root, "tmpfs", 0, ""); err != nil {
		t.Skip("tmpfs cannot be mounted here:", err)
	}
	t.Cleanup(func() { unix.Unmount(root, unix.MNT_DETACH) })
	var names []string
	for _, files := range []int{0, 1, fewAhead, 2*fewAhead - 1, 2 * fewAhead, 2*fewAhead + 1, 3*fewAhead + 7, 5 * fewAhead} {
		for len(names) < files {
			name := fmt.Sprint("f", len(names))
			if err := unix.Mknod(filepath.Join(root, name), unix.S_IFREG|0o600, 0); err != nil {
				t.Fatal(err)
			}
			names = append(names, name)
		}
		for _, memory := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d files, memory %v", files, memory), func(t *testing.T) {
				partsOfADirectory(t, root, names, memory)
			})
		}
	}
}

// The last name of a listing that lies just before the highest name of a part is in that part, and is not
// skipped between this part and the next.
func TestNameBeforeTheEndOfAPartIsListed(t *testing.T) {
	cookies := make([]uint64, 2*fewAhead)
	var names []string
	for i := range cookies {
		names = append(names, fmt.Sprint("f", i))
		cookies[i] = cookieOfName([]byte(names[i]))
	}
	slices.Sort(cookies)
	between := func(name string) bool {
		c := cookieOfName([]byte(name))
		return cookies[fewAhead-2] < c && c < cookies[fewAhead-1]
	}
	i := 0
	for ; !between(fmt.Sprint("g", i)); i++ {
	}
	last := []string{fmt.Sprint("g", i)}
	// One of the two directories lists the name as its last one.
	for _, all := range [][]string{slices.Concat(names, last), slices.Concat(last, names)} {
		root := t.TempDir()
		if err := unix.Mount("local-test", root, "tmpfs", 0, ""); err != nil {
			t.Skip("tmpfs cannot be mounted here:", err)
		}
		defer unix.Unmount(root, unix.MNT_DETACH)
		for _, name := range all {
			if err := unix.Mknod(filepath.Join(root, name), unix.S_IFREG|0o600, 0); err != nil {
				t.Fatal(err)
			}
		}
		t.Run(all[0]+" first", func(t *testing.T) { partsOfADirectory(t, root, all, false) })
	}
}

func partsOfADirectory(t *testing.T, root string, names []string, memory bool) {
	fs, err := New(Config{Root: root, StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fs.Close() })
	if !memory {
		for size := int64(1 << 20); size > 0; size /= 2 {
			for fs.takeNames(size) {
				t.Cleanup(func() { fs.giveNames(size) })
			}
		}
	}
	taken := fs.NameMemory()
	var want []uint64
	for _, name := range names {
		want = append(want, cookieOfName([]byte(name)))
	}
	slices.Sort(want)
	fd, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	var a namesAhead
	var got []uint64
	at := uint64(dotDotCookie)
	for part := 0; ; part++ {
		if err := a.read(fs, fd, at); err != nil {
			t.Fatal(err)
		}
		if n := len(a.entries); !a.last && n < fewAhead || !memory && n > 2*fewAhead || memory && !a.last {
			t.Fatalf("part %d has %d entries, last %v", part, n, a.last)
		}
		for i := range a.entries {
			e := &a.entries[i]
			if c := cookieOfName(a.name(e)); c != e.cookie {
				t.Fatalf("the name %q has cookie %d, not %d", a.name(e), c, e.cookie)
			}
			got, at = append(got, e.cookie), e.cookie
		}
		if a.last {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d names were read in order, want %d", len(got), len(want))
	}
	a.forget(fs)
	if n := fs.NameMemory(); n != taken {
		t.Errorf("%d bytes are taken after the end, %d before", n, taken)
	}
}
