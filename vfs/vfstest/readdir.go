package vfstest

import (
	"fmt"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

var readDirTests = []Test{
	{"readdir/each cookie resumes", testCookies},
	{"readdir/with attributes", testPlus},
	{"readdir/cookies that are none", testBadCookie},
	{"readdir/removing what is listed", testRemoveWhileListing},
	{"readdir/while others change it", testListWhileChanging},
}

// list returns copies of entries after cookie: all of them, or the first ones if there are more
// than the argument most allows.
func (u *user) list(dir vfs.Handle, cookie uint64, most int, plus bool) (all []vfs.DirEntry, eof bool, err error) {
	var a vfs.Attr
	eof, err = u.x.fs.ReadDir(u.op, dir, cookie, plus, &a, func(e *vfs.DirEntry) bool {
		if len(all) == most {
			return false
		}
		c := *e
		c.Name = append([]byte(nil), e.Name...)
		all = append(all, c)
		return true
	})
	if err == nil && a.Type != vfs.Directory {
		u.x.Errorf("ReadDir's attributes of the directory: %+v", a)
	}
	return all, eof, err
}

func testCookies(x *fixture) {
	u := x.self
	for i := range 40 {
		u.create(x.dir, fmt.Sprint("f", i), 0o644)
	}
	all, eof, err := u.list(x.dir, 0, 1000, false)
	if err != nil || !eof || len(all) != 42 {
		x.Fatalf("a listing has %d entries, eof %v, %v; want 42", len(all), eof, err)
	}
	for i := range all {
		if all[i].Cookie == 0 {
			x.Fatalf("the cookie of %q is 0", all[i].Name)
		}
		rest, eof, err := u.list(x.dir, all[i].Cookie, 1000, i%2 == 0)
		if err != nil || !eof || len(rest) != len(all)-i-1 {
			x.Fatalf("after entry %d follow %d, eof %v, %v; want %d", i, len(rest), eof, err, len(all)-i-1)
		}
		for j := range rest {
			if e := &all[i+1+j]; string(rest[j].Name) != string(e.Name) || rest[j].Cookie != e.Cookie || rest[j].FileID != e.FileID {
				x.Fatalf("after entry %d comes %q, want %q", i, rest[j].Name, e.Name)
			}
		}
		// If emit refuses an entry, that entry comes first in the next page.
		page, eof, err := u.list(x.dir, all[i].Cookie, 1, false)
		if err != nil || i+2 < len(all) && (eof || len(page) != 1 || page[0].Cookie != all[i+1].Cookie) {
			x.Fatalf("the page after entry %d: %d entries, eof %v, %v", i, len(page), eof, err)
		}
	}
}

// ReadDir with plus returns the same handle and attributes for an entry as Lookup and GetAttr.
func testPlus(x *fixture) {
	u := x.self
	u.create(x.dir, "f", 0o644)
	d := u.mkdir(x.dir, "d", 0o755)
	if x.info.Symlinks {
		u.symlink(x.dir, "l", "text")
	}
	all, _, err := u.list(x.dir, 0, 100, true)
	x.ok(err, "ReadDir")
	with := 0
	for _, e := range all {
		o := u.lookup(x.dir, string(e.Name))
		a := u.attr(o.Handle)
		if e.FileID != a.FileID {
			x.Errorf("%q is listed as file %d, is %d", e.Name, e.FileID, a.FileID)
		}
		if !e.Handle.IsZero() {
			with++
			if e.Handle != o.Handle {
				x.Errorf("%q is listed with another handle", e.Name)
			}
		}
		if e.HasAttr && (e.Attr.FileID != a.FileID || e.Attr.Type != a.Type || e.Attr.Change != a.Change || e.Attr.Mode != a.Mode) {
			x.Errorf("%q is listed with\n%+v, is\n%+v", e.Name, e.Attr, a)
		}
	}
	if with < len(all)-2 {
		x.Errorf("%d of %d entries come with a handle", with, len(all))
	}
	plain, _, err := u.list(x.dir, 0, 100, false)
	x.ok(err, "ReadDir")
	for _, e := range plain {
		if e.HasAttr || !e.Handle.IsZero() {
			x.Errorf("%q comes with what was not asked for", e.Name)
		}
	}
	empty, eof, err := u.list(d, 0, 100, true)
	if err != nil || !eof || len(empty) != 2 {
		x.Errorf("an empty directory has %d entries, eof %v, %v", len(empty), eof, err)
	}
	root, _, err := u.list(x.fs.Root(), 0, 100, true)
	x.ok(err, "ReadDir of the root")
	for _, e := range root {
		if string(e.Name) == ".." && !e.Handle.IsZero() && e.Handle != x.fs.Root() {
			x.Errorf("the root's .. is not the root")
		}
	}
}

func testBadCookie(x *fixture) {
	u := x.self
	u.create(x.dir, "f", 0o644)
	for _, c := range []uint64{1<<63 + 12345, 1<<64 - 1, 1<<62 + 99} {
		// A file system that accepts any cookie must treat these as the end.
		all, eof, err := u.list(x.dir, c, 10, false)
		if err != nil {
			x.is(err, "ReadDir with a cookie never given out", vfs.ErrBadCookie)
		} else if len(all) > 0 || !eof {
			x.Errorf("a cookie never given out is followed by %d entries, eof %v", len(all), eof)
		}
	}
	all, _, err := u.list(x.dir, 0, 10, false)
	x.ok(err, "ReadDir")
	x.ok(u.remove(x.dir, "f"), "Remove")
	for _, e := range all {
		if string(e.Name) == "." || string(e.Name) == ".." || string(e.Name) == "f" {
			if _, _, err := u.list(x.dir, e.Cookie, 10, false); err != nil {
				x.Errorf("after a removal, ReadDir behind %q: %v", e.Name, err)
			}
		}
	}
}

// A client that removes entries while it lists a directory, as rm -r does, sees every entry.
func testRemoveWhileListing(x *fixture) {
	u := x.self
	const files = 500
	for i := range files {
		u.create(x.dir, fmt.Sprint("f", i), 0o644)
	}
	var cookie uint64
	removed := 0
	for {
		page, eof, err := u.list(x.dir, cookie, 37, true)
		x.ok(err, "ReadDir")
		for _, e := range page {
			cookie = e.Cookie
			if n := string(e.Name); n != "." && n != ".." {
				x.ok(u.remove(x.dir, n), "Remove")
				removed++
			}
		}
		if eof {
			break
		}
	}
	if left := u.names(x.dir); removed != files || len(left) != 0 {
		x.Errorf("%d of %d removed, %d left", removed, files, len(left))
	}
}

// While some entries are added and removed, a listing shows each of the other entries exactly
// once.
func testListWhileChanging(x *fixture) {
	u := x.self
	x.concurrent()
	stay := x.opt.Entries
	for i := range stay {
		u.create(x.dir, fmt.Sprintf("stay-%06d", i), 0o644)
		if i%10 == 0 {
			u.create(x.dir, fmt.Sprintf("goes-%06d", i), 0o644)
		}
	}
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			x.fs.Remove(u.op, x.dir, fmt.Appendf(nil, "goes-%06d", i*10%stay))
			name := fmt.Appendf(nil, "new-%06d", i%300)
			x.fs.Create(u.op, x.dir, name, &vfs.CreateHow{})
			switch i % 3 {
			case 0:
				x.fs.Remove(u.op, x.dir, name)
			case 1:
				x.fs.Rename(u.op, x.dir, name, x.dir, fmt.Appendf(nil, "moved-%06d", i%100))
			}
		}
	}()
	defer func() { close(stop); <-done }()
	for round := range 4 {
		seen := make(map[string]int, stay)
		var cookie uint64
		for page := 0; ; page++ {
			all, eof, err := u.list(x.dir, cookie, []int{1, 17, 300, 4000}[page%4], round%2 == 1)
			if err != nil {
				x.Errorf("ReadDir: %v", err)
				return
			}
			for _, e := range all {
				cookie = e.Cookie
				seen[string(e.Name)]++
			}
			if eof {
				break
			}
			if page > 10*stay {
				x.Errorf("a listing does not end")
				return
			}
		}
		for i := range stay {
			if n := seen[fmt.Sprintf("stay-%06d", i)]; n != 1 {
				x.Errorf("round %d: an entry that stayed was listed %d times", round, n)
				return
			}
		}
	}
}
