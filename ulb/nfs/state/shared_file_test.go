package state

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// shownBy opens a file system for root, and returns it with the key of the file at path.
func shownBy(t *testing.T, root, path string) (*local.FS, FileKey) {
	t.Helper()
	fs, err := local.New(local.Config{Root: root, StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fs.Close() })
	op := &vfs.Op{Cred: &vfs.Cred{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}}
	at := fs.Root()
	for name := range strings.SplitSeq(path, "/") {
		o, err := fs.Lookup(op, at, []byte(name), &vfs.Attr{})
		if err != nil {
			t.Fatal(err)
		}
		at = o.Handle
	}
	return fs, FileKey{DomainOf(fs), at}
}

// If two file systems show one file, a deny mode of a client of one also holds for clients of the
// other and for NFSv3. If one file system is closed, only the opens through it are revoked.
func TestDenyModesAreOfTheFileAndNotOfTheFileSystem(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"one/sub", "other"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "one/sub/f"), []byte("x"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(dir, "one/sub/f"), filepath.Join(dir, "other/g")); err != nil {
		t.Fatal(err)
	}
	outer, first := shownBy(t, filepath.Join(dir, "one"), "sub/f")
	for _, c := range []struct{ name, root, path string }{
		{"a directory beneath", "one/sub", "f"}, {"a directory with another name of the file", "other", "g"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newManager(t)
			fs, second := shownBy(t, filepath.Join(dir, c.root), c.path)
			a, b := newClient(m, 1, "a"), newClient(m, 1, "b")
			denies := open(t, m, a, "a", first, AccessBoth, AccessBoth)
			again := func() Verdict {
				o, s := m.Open(&OpenArgs{Client: b, OwnerName: []byte("b"), Key: second, Access: AccessBoth, Deny: AccessBoth})
				if s == ok {
					m.TakeBack(&o)
				}
				return s
			}
			is(t, "OPEN beside DENY_BOTH", again(), OpenConflict)
			if a := anonymously(m, fs, second, UseWrite); a != No {
				t.Errorf("a write of NFSv3: answer %d", a)
			}
			_, s := m.CloseOpen(&Ref{ID: denies, Client: a, Key: first}, true)
			is(t, "CLOSE", s, ok)
			is(t, "OPEN behind the CLOSE", again(), ok)

			// One owner has one stateid for each file system, and keeps the one that is not revoked.
			id := open(t, m, a, "a", first, AccessRead, 0)
			other := open(t, m, a, "a", second, AccessRead, 0)
			if id.Other == other.Other {
				t.Error("two file handles have one stateid")
			}
			lock := func(c *Client, id StateID, key FileKey, fs vfs.Claimer) Verdict {
				_, _, s := m.Lock(&LockArgs{Ref: Ref{ID: id, Client: c, Key: key}, New: true, OwnerName: []byte(c.Owner), Length: 1, Claimer: fs})
				return s
			}
			is(t, "LOCK", lock(a, id, first, outer), ok)
			is(t, "LOCK by the other file system", lock(b, open(t, m, b, "b", second, AccessRead, 0), second, fs), ok)
			m.Revoke(first.Domain)
			if _, s := m.Find(&id, a); s == ok {
				t.Error("what was open by a file system that is closed stays")
			}
			_, s = m.Find(&other, a)
			is(t, "what is open by the other file system", s, ok)
			if _, found, err := outer.TestClaim(first.Handle, 0, 1, vfs.ClaimWrite); !found || err != nil {
				t.Errorf("what is locked by the other file system is claimed still: %v, %v", found, err)
			}
		})
	}
}

// If a client has locked very many ranges of a file through one file system, the Manager claims
// them as one range. That claim is no larger than these locks: a client with a lock after them,
// through another file system, may still change its lock.
func TestClaimAsOneEndsWithTheLocksOfItsFileSystem(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "sub/f"), []byte("x"), 0o666); err != nil {
		t.Fatal(err)
	}
	outer, first := shownBy(t, dir, "sub/f")
	inner, second := shownBy(t, filepath.Join(dir, "sub"), "f")
	m := newManager(t)
	a, b := newClient(m, 1, "a"), newClient(m, 1, "b")
	byFirst, bySecond := open(t, m, a, "a", first, AccessBoth, 0), open(t, m, b, "b", second, AccessBoth, 0)
	locker := func(ref Ref, fs vfs.Claimer) func(at uint64, write bool) {
		of := LockArgs{Ref: ref, New: true, OwnerName: []byte("l"), Length: 1, Claimer: fs}
		return func(at uint64, write bool) {
			t.Helper()
			args := of
			args.Offset, args.Write = at, write
			id, _, s := m.Lock(&args)
			is(t, "LOCK", s, ok)
			of.Ref.ID, of.New = id, false
		}
	}
	lockFirst := locker(Ref{ID: byFirst, Client: a, Key: first}, outer)
	lockSecond := locker(Ref{ID: bySecond, Client: b, Key: second}, inner)
	const n = maxFileClaims + 2
	lockSecond(4*n, false)
	for i := range uint64(n) {
		lockFirst(2*i, false)
	}
	if c := m.files.claims[first]; c.whole.mode == 0 {
		t.Fatal("the locks are not claimed as one")
	}
	lockSecond(4*n, true)
	lockFirst(2*n, true)
	if w := m.files.claims[first].whole; w != (need{0, 2 * n, vfs.ClaimWrite}) {
		t.Errorf("claimed as one: %+v", w)
	}
}
