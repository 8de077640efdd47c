package billy

import (
	"io/fs"
	"sort"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// pageLen is the largest number of entries that page returns.
const pageLen = 128

// Cookies of "." and "..", to which FS.salt is added. All other entries have larger cookies.
const (
	dotCookie    = 1
	dotDotCookie = 2
)

// A directory holds those names in one directory that the FS has seen, in the order in which it
// first saw them. An entry's cookie is computed from its number in that order, so it stays the same
// when other entries come or go.
type directory struct {
	names map[string]*entry // nil if the node is not a directory
	order []*entry          // sorted by cookie; detach takes out removed entries when there are many
	last  uint64            // the latest cookie given out
}

// An entry is a name of a node in a directory.
type entry struct {
	name   string
	cookie uint64
	dir    *node
	node   *node // nil if the entry is removed
}

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
		a = &vfs.Attr{} // dirAttr keeps the attributes read with the first page
	}
}

// page returns up to pageLen entries after cookie. end is true if no entries follow them.
func (f *FS) page(dir vfs.Handle, cookie uint64, plus bool, dirAttr *vfs.Attr) (page []vfs.DirEntry, end bool, err error) {
	d, err := f.get(dir, dirAttr)
	switch {
	case err != nil:
		return nil, false, err
	case d.kind != vfs.Directory:
		return nil, false, syscall.ENOTDIR
	}
	if cookie == 0 {
		if err := f.list(d); err != nil {
			return nil, false, err
		}
	} else if cookie <= f.salt() || cookie > d.last {
		return nil, false, vfs.ErrBadCookie // another process or directory gave out the cookie
	}
	// entries holds copies, because f.stat of one entry may remove others from d.order.
	entries := []entry{{".", f.salt() + dotCookie, d, d}, {"..", f.salt() + dotDotCookie, d, d.parent()}}
	i := sort.Search(len(d.order), func(i int) bool { return d.order[i].cookie > cookie })
	for ; i < len(d.order) && len(entries) < pageLen; i++ {
		if d.order[i].node != nil {
			entries = append(entries, *d.order[i])
		}
	}
	for _, e := range entries {
		if e.cookie <= cookie {
			continue
		}
		de := vfs.DirEntry{Name: []byte(e.name), FileID: e.node.id, Cookie: e.cookie}
		if plus {
			a, err := f.stat(e.node)
			if err == errAlone {
				return nil, false, err
			}
			if err == nil {
				de.Handle, de.Attr, de.HasAttr = e.node.handle, a, true
			}
		}
		page = append(page, de)
	}
	return page, i == len(d.order), nil
}

// list reads the names in d from the file system and updates d.directory. Each listing of the
// directory begins with a call of list.
func (f *FS) list(d *node) error {
	var infos []fs.FileInfo
	err := f.at(d, "", func(path string) (err error) { infos, err = f.bfs.ReadDir(path); return })
	if err != nil {
		return err
	}
	there := make(map[string]bool, len(infos))
	for _, info := range infos {
		name := info.Name()
		if vfs.CheckName([]byte(name), maxName) != nil || vfs.IsDot([]byte(name)) {
			continue // no client can use this name
		}
		there[name] = true
		a := f.shown(info)
		if _, err := f.adopt(d, name, &a); err != nil {
			return err
		}
	}
	for name, e := range d.names {
		if there[name] {
			continue
		}
		if !f.alone {
			return errAlone
		}
		f.detach(e)
	}
	return nil
}
