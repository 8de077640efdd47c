package pseudo

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest"
)

// op is an operation of a user without special rights.
var op = &vfs.Op{Cred: &vfs.Cred{UID: 1000, GID: 1000}}

// newFS returns the tree above exports with the given names. Their file systems are in memory.
func newFS(t testing.TB, names ...string) (Seen, *export.Table) {
	t.Helper()
	table := export.NewTable([export.KeySize]byte{1})
	f := Seen{Attach(table), conn(t, "10.0.0.1"), new(rpc.Cred)}
	replace(t, table, names...)
	return f, table
}

func replace(t testing.TB, table *export.Table, names ...string) {
	t.Helper()
	var all []*export.Export
	for _, name := range names {
		all = append(all, &export.Export{Name: name, FS: memfs.New(memfs.Options{}), Options: export.Options{Squash: export.NoSquash}})
	}
	if err := table.Replace(all); err != nil {
		t.Fatal(err)
	}
}

// find returns the directory of the tree at path.
func find(t testing.TB, f Seen, path string) vfs.Object {
	t.Helper()
	o := vfs.Object{Handle: f.Root()}
	for name := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		var dir vfs.Attr
		var err error
		if name != "" {
			if o, err = f.Lookup(op, o.Handle, []byte(name), &dir); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
		}
	}
	if err := f.GetAttr(op, o.Handle, &o.Attr); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestDirectories(t *testing.T) {
	f, _ := newFS(t, "/srv/a/deep", "/srv/b", "/home")
	seen := map[uint64]string{}
	for path, nlink := range map[string]uint32{"/": 4, "/srv": 4, "/srv/a": 3, "/srv/a/deep": 2, "/home": 2} {
		o := find(t, f, path)
		a := o.Attr
		if a.Type != vfs.Directory || a.Mode != 0o555 || a.Nlink != nlink || a.FileID == 0 || a.Change == 0 {
			t.Errorf("%s: %+v", path, a)
		}
		if other := seen[a.FileID]; other != "" {
			t.Errorf("%s and %s have one number", path, other)
		}
		seen[a.FileID] = path
		var dir vfs.Attr
		if same, err := f.Lookup(op, o.Handle, []byte("."), &dir); err != nil || same.Handle != o.Handle {
			t.Errorf("%s/.: %v", path, err)
		}
		if _, err := f.Lookup(op, o.Handle, []byte("none"), &dir); err != syscall.ENOENT || dir.FileID != a.FileID {
			t.Errorf("%s/none: %v", path, err)
		}
		got, err := f.Access(op, o.Handle, ^vfs.Access(0), &dir)
		if err != nil || got != vfs.AccessRead|vfs.AccessLookup {
			t.Errorf("%s: rights %b, %v", path, got, err)
		}
	}
	var dir vfs.Attr
	if up, err := f.Lookup(op, f.Root(), []byte(".."), &dir); err != nil || up.Handle != f.Root() {
		t.Errorf("above the root: %v", err)
	}
}

// A handle stands for a path in every process. After a restart, with the same exports or with
// others, it is valid if the path exists.
func TestHandlesSurviveRestarts(t *testing.T) {
	f, table := newFS(t, "/srv/a", "/home/x")
	again, _ := newFS(t, "/new", "/home/x", "/srv/b")
	srv, home := find(t, f, "/srv"), find(t, f, "/home")
	for path, h := range map[string]vfs.Handle{"/": f.Root(), "/srv": srv.Handle, "/home": home.Handle} {
		if o := find(t, again, path); o.Handle != h {
			t.Errorf("%s has another handle", path)
		}
	}
	if a, b := find(t, again, "/srv").Attr, srv.Attr; a.FileID != b.FileID || a.Change == b.Change {
		t.Errorf("%+v after %+v: the same object has to be told to have changed", a, b)
	}
	replace(t, table, "/home/x")
	var a vfs.Attr
	if err := f.GetAttr(op, srv.Handle, &a); err != syscall.ESTALE {
		t.Errorf("a directory that leads to nothing any more: %v", err)
	}
	strange, _ := vfs.MakeHandle([]byte("no handle of this"))
	for _, h := range []vfs.Handle{{}, strange} {
		if err := f.GetAttr(op, h, &a); !errors.Is(err, vfs.ErrBadHandle) {
			t.Errorf("%v: %v", h, err)
		}
	}
}

// A listing continues where it stopped, whichever names were added and removed in between.
func TestListing(t *testing.T) {
	var names []string
	for i := range 50 {
		names = append(names, fmt.Sprintf("/e%02d", i))
	}
	f, table := newFS(t, names...)
	read := func(cookie uint64, n int) (got []string, next uint64, eof bool) {
		t.Helper()
		var dir vfs.Attr
		eof, err := f.ReadDir(op, f.Root(), cookie, true, &dir, func(e *vfs.DirEntry) bool {
			if len(got) == n {
				return false
			}
			if !e.HasAttr || e.Handle.IsZero() || e.FileID != e.Attr.FileID || e.Cookie <= next {
				t.Errorf("%+v", e)
			}
			got, next = append(got, string(e.Name)), e.Cookie
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
		return got, next, eof
	}
	all, _, eof := read(0, 100)
	if len(all) != 52 || !eof || all[0] != "." || all[1] != ".." {
		t.Fatalf("%v", all)
	}
	var once []string
	for cookie, eof := uint64(0), false; !eof; {
		var some []string
		some, cookie, eof = read(cookie, 7)
		once = append(once, some...)
	}
	if !slices.Equal(once, all) {
		t.Errorf("%v", once)
	}
	first, cookie, _ := read(0, 20)
	replace(t, table, append(slices.Clone(names[:25]), "/later", "/and/more")...)
	rest, _, _ := read(cookie, 100)
	for _, name := range names[:25] {
		if in := strings.Trim(name, "/"); slices.Contains(first, in) == slices.Contains(rest, in) {
			t.Errorf("%s was listed twice, or never", in)
		}
	}
}

func TestNothingChanges(t *testing.T) {
	f, _ := newFS(t, "/a/b")
	dir, name := f.Root(), []byte("x")
	var errs []error
	add := func(err error) { errs = append(errs, err) }
	_, err := f.SetAttr(op, dir, &vfs.SetAttr{}, nil)
	add(err)
	_, _, _, err = f.Write(op, dir, 0, nil, vfs.Unstable)
	add(err)
	_, _, err = f.Create(op, dir, name, &vfs.CreateHow{})
	add(err)
	_, _, err = f.Mkdir(op, dir, name, &vfs.SetAttr{})
	add(err)
	_, _, err = f.Symlink(op, dir, name, name, &vfs.SetAttr{})
	add(err)
	_, _, err = f.Mknod(op, dir, name, vfs.FIFO, &vfs.SetAttr{}, 0, 0)
	add(err)
	_, err = f.Remove(op, dir, name)
	add(err)
	_, err = f.Rmdir(op, dir, name)
	add(err)
	_, _, err = f.Rename(op, dir, name, dir, name)
	add(err)
	_, err = f.Link(op, dir, dir, name, nil)
	add(err)
	for i, err := range errs {
		if err != syscall.EROFS {
			t.Errorf("change %d: %v", i, err)
		}
	}
	if _, _, err := f.Read(op, dir, 0, nil, nil); err != syscall.EISDIR {
		t.Errorf("Read: %v", err)
	}
	if _, err := f.ReadLink(op, dir, nil, nil); err != syscall.EINVAL {
		t.Errorf("ReadLink: %v", err)
	}
}

// conn returns a connection of a client with the given address.
func conn(t testing.TB, from string) *rpc.Conn {
	s := rpc.NewServer(rpc.Config{})
	t.Cleanup(s.Close)
	return s.NewConn(netip.AddrPortFrom(netip.MustParseAddr(from), 1000), netip.AddrPort{}, "tcp", true)
}

// Each client sees the exports that serve it: below a directory of an export that it sees, or
// below a directory of this package.
func TestViews(t *testing.T) {
	f, table := newFS(t, "/data", "/data/dir/inner", "/data/gone/lost")
	for _, e := range table.All() {
		mkdir(t, e.FS, "dir", "inner")
		if e.Name == "/data" {
			e.Clients = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}
		}
	}
	byName := func(name string) *export.Export {
		for _, e := range table.All() {
			if e.Name == name {
				return e
			}
		}
		return nil
	}
	inside, outside := conn(t, "10.0.0.1"), conn(t, "10.9.9.9")
	caller := &rpc.Cred{Flavor: rpc.AuthSys}
	view := func(c *rpc.Conn) *View { return &View{Looked: new(export.Looked), Conn: c, Caller: caller} }
	root := func(name string) Place { return Place{byName(name), byName(name).FS.Root()} }

	// A client that sees /data finds the inner export in the directories of /data.
	at := Place{table.Root(), f.Root()}
	if e, err := f.Below(view(inside), &at, []byte("data")); e != byName("/data") || err != nil {
		t.Errorf("data: %v, %v", e, err)
	}
	dir := Place{byName("/data"), lookup(t, byName("/data").FS, "dir")}
	if e, err := f.Below(view(inside), &dir, []byte("inner")); e != byName("/data/dir/inner") || err != nil {
		t.Errorf("inner: %v, %v", e, err)
	}
	top := root("/data")
	if e, err := f.Below(view(inside), &top, []byte("inner")); e != nil || err != nil {
		t.Errorf("inner, elsewhere: %v, %v", e, err)
	}
	if up, err := f.Above(view(inside), byName("/data/dir/inner")); up != dir || err != nil {
		t.Errorf("above inner: %v, %v", up, err)
	}
	// A client that does not see /data finds the inner export in directories of this package.
	if e, err := f.Below(view(outside), &at, []byte("data")); e != nil || err != nil {
		t.Errorf("data, from outside: %v, %v", e, err)
	}
	made := Place{table.Root(), find(t, f, "/data/dir").Handle}
	if e, err := f.Below(view(outside), &made, []byte("inner")); e != byName("/data/dir/inner") || err != nil {
		t.Errorf("inner, from outside: %v, %v", e, err)
	}
	if up, err := f.Above(view(outside), byName("/data/dir/inner")); up != made || err != nil {
		t.Errorf("above inner, from outside: %v, %v", up, err)
	}
	// An export covers the object with its name in the parent directory.
	for c, want := range map[*rpc.Conn]uint64{
		inside:  attr(t, byName("/data").FS, lookup(t, byName("/data").FS, "dir", "inner")).FileID,
		outside: find(t, f, "/data/dir/inner").Attr.FileID,
	} {
		if got, ok, err := f.Covered(view(c), byName("/data/dir/inner")); got != want || !ok || err != nil {
			t.Errorf("covered: %d %v %v, want %d", got, ok, err, want)
		}
	}
	// If the parent directory is missing, Above fails, and the export covers only the path in
	// the tree.
	if _, err := f.Above(view(inside), byName("/data/gone/lost")); err != syscall.ENOENT {
		t.Errorf("above lost: %v", err)
	}
	if got, ok, err := f.Covered(view(inside), byName("/data/gone/lost")); got != find(t, f, "/data/gone/lost").Attr.FileID || !ok || err != nil {
		t.Errorf("covered by lost: %d %v %v", got, ok, err)
	}
}

// A peer sees only the directories that lead to exports that serve it. Others are not listed,
// not found and not counted, and their handles are stale. A Seen without a peer shows nothing.
func TestEachPeerSeesItsOwnDirectories(t *testing.T) {
	f, table := newFS(t, "/srv/payroll", "/srv/open", "/closed/a")
	for _, e := range table.All() {
		if e.Name != "/srv/open" {
			e.Clients = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}
		}
	}
	for who, c := range map[string]struct {
		by      *rpc.Conn
		names   []string
		payroll error
	}{
		"a client of all":  {f.By, []string{"closed", "srv"}, nil},
		"a client of some": {conn(t, "10.9.9.9"), []string{"srv"}, syscall.ESTALE},
		"no client":        {nil, nil, syscall.ESTALE},
	} {
		seen := Seen{f.FS, c.by, new(rpc.Cred)}
		var names []string
		var dir, a vfs.Attr
		if _, err := seen.ReadDir(op, f.Root(), dotDotCookie, true, &dir, func(e *vfs.DirEntry) bool {
			names = append(names, string(e.Name))
			return true
		}); err != nil {
			t.Fatal(err)
		}
		if slices.Sort(names); !slices.Equal(names, c.names) || dir.Nlink != uint32(2+len(names)) {
			t.Errorf("%s lists %q, and counts %d", who, names, dir.Nlink)
		}
		for _, name := range []string{"closed", "srv"} {
			_, err := seen.Lookup(op, f.Root(), []byte(name), &dir)
			if found := err == nil; found != slices.Contains(c.names, name) {
				t.Errorf("%s looks up %s: %v", who, name, err)
			}
		}
		if err := seen.GetAttr(op, find(t, f, "/srv/payroll").Handle, &a); err != c.payroll {
			t.Errorf("%s has a handle of /srv/payroll: %v", who, err)
		}
	}
}

// If a View may not wait, its methods return vfs.ErrWouldBlock and do nothing.
func TestViewThatMayNotWait(t *testing.T) {
	table := export.NewTable([export.KeySize]byte{1})
	f := Attach(table)
	slow := memfs.New(memfs.Options{})
	outer := &export.Export{Name: "/data", FS: vfstest.Hesitant(slow), Options: export.Options{Squash: export.NoSquash}}
	inner := &export.Export{Name: "/data/dir/inner", FS: memfs.New(memfs.Options{}), Options: export.Options{Squash: export.NoSquash}}
	if err := table.Replace([]*export.Export{outer, inner}); err != nil {
		t.Fatal(err)
	}
	mkdir(t, slow, "dir", "inner")
	v := &View{Looked: new(export.Looked), Conn: conn(t, "10.0.0.1"), Caller: &rpc.Cred{Flavor: rpc.AuthSys}, Op: vfs.Op{Try: true}}
	at := Place{outer, lookup(t, slow, "dir")}
	for want, try := range map[error]bool{vfs.ErrWouldBlock: true, nil: false} {
		v.Op.Try = try
		e, err := f.Below(v, &at, []byte("inner"))
		if !errors.Is(err, want) || (e == inner) == try {
			t.Errorf("below: %v, %v", e, err)
		}
		if _, err = f.Above(v, inner); !errors.Is(err, want) {
			t.Errorf("above: %v", err)
		}
		if _, ok, err := f.Covered(v, inner); !errors.Is(err, want) || ok == try {
			t.Errorf("covered: %v", err)
		}
	}
	if !f.MayLead(outer, []byte("inner")) || f.MayLead(outer, []byte("dir")) || f.MayLead(inner, []byte("inner")) {
		t.Error("MayLead")
	}
}

func mkdir(t testing.TB, fs vfs.FileSystem, names ...string) {
	t.Helper()
	h := fs.Root()
	for _, name := range names {
		o, _, err := fs.Mkdir(&vfs.Op{Cred: &vfs.Cred{}}, h, []byte(name), &vfs.SetAttr{SetMode: true, Mode: 0o755})
		if err != nil {
			t.Fatal(err)
		}
		h = o.Handle
	}
}

func lookup(t testing.TB, fs vfs.FileSystem, names ...string) vfs.Handle {
	t.Helper()
	h := fs.Root()
	for _, name := range names {
		var dir vfs.Attr
		o, err := fs.Lookup(&vfs.Op{Cred: &vfs.Cred{}}, h, []byte(name), &dir)
		if err != nil {
			t.Fatal(err)
		}
		h = o.Handle
	}
	return h
}

func attr(t testing.TB, fs vfs.FileSystem, h vfs.Handle) (a vfs.Attr) {
	t.Helper()
	if err := fs.GetAttr(&vfs.Op{Cred: &vfs.Cred{}}, h, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

func TestPaths(t *testing.T) {
	f, table := newFS(t, "/srv", "/srv/x", "/other")
	for _, e := range table.All() {
		e.Root = e.Name == "/srv"
	}
	if err := table.Replace(slices.Clone(table.All())); err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	for _, e := range table.All() {
		fmt.Fprintf(&got, "%s at %s\n", e.Name, f.Path(e))
	}
	if want := "/other at /other\n/srv/x at /x\n/srv at /\n"; got.String() != want {
		t.Errorf("%s", got.String())
	}
}
