package vfstest

import (
	"fmt"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

var readDirTests = []Test{
	{"readdir/each cookie resumes", testCookies},
}

// list returns what follows cookie, at most most entries.
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
		// In pages of one; what emit refuses is not lost.
		page, eof, err := u.list(x.dir, all[i].Cookie, 1, false)
		if err != nil || i+2 < len(all) && (eof || len(page) != 1 || page[0].Cookie != all[i+1].Cookie) {
			x.Fatalf("the page after entry %d: %d entries, eof %v, %v", i, len(page), eof, err)
		}
	}
}
