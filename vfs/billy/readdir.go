package billy

import (
	"io/fs"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// pageLen is how many entries are looked at before they are handed over.
const pageLen = 128

// A listed is an entry on its way to emit.
type listed struct {
	entry
	attr vfs.Attr
	has  bool
}

// ReadDir implements vfs.FileSystem.
func (f *FS) ReadDir(op *vfs.Op, dir vfs.Handle, cookie uint64, plus bool, dirAttr *vfs.Attr, emit func(e *vfs.DirEntry) bool) (eof bool, err error) {
	if op.Try {
		return false, vfs.ErrWouldBlock
	}
	for first := true; ; first = false {
		page, end, err := f.page(dir, cookie, plus, dirAttr, first)
		if err != nil {
			return false, err
		}
		for i := range page {
			l := &page[i]
			e := vfs.DirEntry{Name: []byte(l.name), FileID: l.node.id, Cookie: l.cookie}
			if plus && l.has {
				e.Handle, e.Attr, e.HasAttr = l.node.handle, l.attr, true
			}
			cookie = l.cookie
			if !emit(&e) {
				return false, nil
			}
		}
		if end {
			return true, nil
		}
	}
}

// page returns entries behind cookie, and whether the directory ends there.
func (f *FS) page(dir vfs.Handle, cookie uint64, plus bool, dirAttr *vfs.Attr, first bool) (page []listed, end bool, err error) {
	// A listing looks at every file in the directory, in many file systems
	// without regard for who writes to it.
	if f.opt.Concurrent {
		f.calls.RLock()
		defer f.calls.RUnlock()
	} else {
		f.calls.Lock()
		defer f.calls.Unlock()
	}
	var a vfs.Attr
	d, err := f.look(dir, &a)
	if err != nil {
		return nil, false, err
	}
	if first {
		*dirAttr = a
	}
	if d.kind != vfs.Directory {
		return nil, false, syscall.ENOTDIR
	}
	if err := f.list(d, cookie == 0); err != nil {
		return nil, false, err
	}
	f.mu.Lock()
	if !d.children.valid(cookie) {
		f.mu.Unlock()
		return nil, false, vfs.ErrBadCookie
	}
	if c := f.salt + dotCookie; cookie < c {
		page = append(page, listed{entry: entry{".", c, d}})
	}
	if c := f.salt + dotDotCookie; cookie < c {
		up := d
		if len(d.links) > 0 {
			up = d.links[0].dir
		}
		page = append(page, listed{entry: entry{"..", c, up}})
	}
	rest := d.children.after(cookie, pageLen)
	f.mu.Unlock()
	for _, e := range rest {
		page = append(page, listed{entry: e})
	}
	if plus {
		for i := range page {
			a, err := f.stat(page[i].node, looked, false)
			page[i].attr, page[i].has = a, err == nil
		}
	}
	return page, len(rest) < pageLen, nil
}

// list brings what is known of d's names up to date: for a new listing, and
// where somebody else was at the directory.
func (f *FS) list(d *node, anew bool) error {
	f.mu.Lock()
	fresh := d.children.whole && d.children.listed == d.seen
	seen := d.seen
	f.mu.Unlock()
	if fresh && !anew {
		return nil
	}
	path, err := f.path(d)
	if err != nil {
		return err
	}
	infos, err := f.fs.ReadDir(path)
	if err != nil {
		return errno(err)
	}
	there := make(map[string]fs.FileInfo, len(infos))
	for _, info := range infos {
		name := info.Name()
		if checkName([]byte(name)) != nil || isDot(name) {
			continue // no client could ask for it
		}
		there[name] = info
		f.adopt(d, name, info)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for name := range d.children.names {
		if there[name] == nil {
			f.detach(d, name)
		}
	}
	d.children.whole, d.children.listed = true, seen
	return nil
}
