package billy

import (
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// pageLen is how many entries are looked at before they are handed over.
const pageLen = 128

// ReadDir implements vfs.FileSystem.
func (f *FS) ReadDir(op *vfs.Op, dir vfs.Handle, cookie uint64, plus bool, dirAttr *vfs.Attr, emit func(e *vfs.DirEntry) bool) (eof bool, err error) {
	a := dirAttr
	for {
		var page []vfs.DirEntry
		err := f.look(op, func() (err error) { page, eof, err = f.page(dir, cookie, plus, a); return })
		if err != nil {
			return false, err
		}
		for i := range page {
			cookie = page[i].Cookie
			if !emit(&page[i]) {
				return false, nil
			}
		}
		if eof {
			return true, nil
		}
		a = &vfs.Attr{} // dirAttr is of the beginning
	}
}

// page returns entries behind cookie, and whether the directory ends there.
func (f *FS) page(dir vfs.Handle, cookie uint64, plus bool, dirAttr *vfs.Attr) (page []vfs.DirEntry, end bool, err error) {
	d, err := f.get(dir, dirAttr)
	if err != nil {
		return nil, false, err
	}
	if d.kind != vfs.Directory {
		return nil, false, syscall.ENOTDIR
	}
	if err := f.list(d, cookie == 0); err != nil {
		return nil, false, err
	}
	if !d.children.valid(cookie) {
		return nil, false, vfs.ErrBadCookie
	}
	rest := d.children.after(cookie, pageLen)
	end = len(rest) < pageLen
	dots := []entry{{".", f.salt + dotCookie, d}, {"..", f.salt + dotDotCookie, d.parent()}}
	for _, e := range append(dots, rest...) {
		if e.cookie <= cookie {
			continue
		}
		de := vfs.DirEntry{Name: []byte(e.name), FileID: e.node.id, Cookie: e.cookie}
		if plus {
			a, err := f.stat(e.node, looked)
			if err == errAlone {
				return nil, false, err
			}
			if err == nil {
				de.Handle, de.Attr, de.HasAttr = e.node.handle, a, true
			}
		}
		page = append(page, de)
	}
	return page, end, nil
}

// list brings what is known of d's names up to date: for a new listing, and
// where the directory was changed by other means than the calls of this FS.
func (f *FS) list(d *node, anew bool) error {
	c := d.children
	fresh := c.whole && c.listed == d.seen
	switch {
	case fresh && !anew:
		return nil
	case !fresh && !f.alone:
		return errAlone
	}
	path, err := f.path(d)
	if err != nil {
		return err
	}
	infos, err := f.fs.ReadDir(path)
	if err != nil {
		return err
	}
	there := make(map[string]bool, len(infos))
	for _, info := range infos {
		name := info.Name()
		if checkName([]byte(name)) != nil || isDot(name) {
			continue // no client could ask for it
		}
		there[name] = true
		s := f.sight(info)
		if _, err := f.adopt(d, name, &s); err != nil {
			return err
		}
	}
	for name := range c.names {
		if !there[name] {
			if !f.alone {
				return errAlone
			}
			f.detach(d, name)
		}
	}
	if !fresh {
		c.whole, c.listed = true, d.seen
	}
	return nil
}
