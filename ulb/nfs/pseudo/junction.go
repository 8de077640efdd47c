package pseudo

import (
	"errors"
	"path"
	"sync/atomic"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A Place is an object in an export.
type Place struct {
	Export *export.Export
	Handle vfs.Handle
}

// A View is the tree as one caller may see it: FS walks it with the caller's permissions, through the
// exports that serve the caller.
type View struct {
	Conn   *rpc.Conn
	Caller *rpc.Cred
	// Looked holds the caller's groups, if they have been looked up. The methods of FS add to it.
	Looked *export.Looked
	// Op is passed to file systems, with the caller's identity in each export. With Op.Try, the methods
	// that take the View return vfs.ErrWouldBlock instead of waiting.
	Op vfs.Op
	// cred is the caller's identity in the export in use. Op.Cred points to it.
	cred vfs.Cred
}

// FS is the tree of names of an export table.
type FS struct {
	exports *export.Table
	export  *export.Export // the export of the tree's own directories
	tree    atomic.Pointer[tree]
}

// Attach makes the FS of an export table its root, before the table's first Replace.
func Attach(t *export.Table) *FS {
	f := &FS{exports: t}
	f.export = &export.Export{Name: "/", FS: Seen{FS: f}, Options: export.Options{ReadOnly: true, Squash: export.AllSquash, AnonUID: export.Nobody, AnonGID: export.Nobody}}
	t.SetRoot(f.export)
	return f
}

// Of returns the pseudo file system of a table, or nil if the table has none.
func Of(t *export.Table) *FS {
	root := t.Root()
	if root == nil {
		return nil
	}
	s, _ := vfs.As[Seen](root.FS)
	return s.FS
}

// FileSystem returns the file system of export e for a caller. The field FS of the tree's own export shows
// only an empty root.
func (f *FS) FileSystem(e *export.Export, by *rpc.Conn, caller *rpc.Cred) vfs.FileSystem {
	if f == nil || e != f.export {
		return e.FS
	}
	return Seen{f, by, caller}
}

// now returns the tree of the present exports. It builds a new tree if they have changed.
func (f *FS) now() *tree {
	of := f.exports.Tree()
	t := f.tree.Load()
	if t == nil || t.of != of {
		t = grow(of, t)
		f.tree.Store(t)
	}
	return t
}

// Start returns the root of the tree for a caller.
func (f *FS) Start(c *rpc.Conn, cred *rpc.Cred) Place {
	t := f.now()
	if t.root.serves(c, cred) {
		return Place{t.root.export, t.root.export.FS.Root()}
	}
	return Place{f.export, t.root.handle}
}

// MayLead reports whether a name in a directory of e could lead into another export: Below gives the exact
// answer. MayLead does not call the file system.
func (f *FS) MayLead(e *export.Export, name []byte) bool {
	if e == f.export {
		return true
	}
	t := f.now()
	above := t.nodeOf(e)
	return above != nil && len(above.children) > 0 && len(t.byName[string(name)]) > 0
}

// nodeOf returns the node where e, or the export below which the mount e lies, is attached.
func (t *tree) nodeOf(e *export.Export) *node {
	if m := e.Mount(); m != nil {
		return t.byExport[m.TopID]
	}
	return t.byExport[e.ID]
}

// Path returns the path of an export in the tree, or "/" if it has none.
func (f *FS) Path(e *export.Export) string {
	n := f.now().nodeOf(e)
	switch m := e.Mount(); {
	case n == nil:
		return "/"
	case m != nil:
		return path.Join(n.path, m.Beneath())
	}
	return n.path
}

// Below returns the export into which a name in the directory at leads, or nil if the name belongs to the
// file system of the directory or does not exist. The caller has entered the directory's export.
func (f *FS) Below(v *View, at *Place, name []byte) (junction *export.Export, err error) {
	t := f.now()
	if at.Export == f.export {
		if n := t.byHandle[at.Handle]; n != nil {
			if n = n.children[string(name)]; n != nil && n.serves(v.Conn, v.Caller) {
				return n.export, nil
			}
		}
		return nil, nil
	}
	above := t.nodeOf(at.Export)
	if above == nil || len(above.children) == 0 {
		return nil, nil
	}
	for _, n := range t.byName[string(name)] {
		if n.parent == nil || !n.serves(v.Conn, v.Caller) || n.under(v.Conn, v.Caller) != above {
			continue
		}
		dir, err := f.down(v, above.export, n.parent.namesFrom(above))
		switch {
		case unknown(err):
			return nil, err
		case err == nil && dir.Export.ID == at.Export.ID && dir.Handle == at.Handle:
			return n.export, nil
		}
	}
	return nil, nil
}

// Unseen returns the path of a name that the peer does not see in dir, a directory of this package. e is
// an export at that path or below it, or nil if there is none.
func (f *FS) Unseen(dir vfs.Handle, name []byte) (at string, e *export.Export) {
	n := f.now().byHandle[dir]
	if n == nil {
		return string(name), nil
	}
	at = path.Join(n.path, string(name))
	for n = n.children[string(name)]; n != nil; n = n.sorted[0] {
		if n.export != nil {
			return at, n.export
		}
	}
	return at, nil
}

// Cross returns the export of the file system that is mounted on a name in the directory at. The caller
// has entered the directory's export, and its file system has returned EXDEV for the name. The result
// serves the caller, and its file system is open. If there is no such export, Cross returns EXDEV.
func (f *FS) Cross(v *View, at *Place, name []byte) (*export.Export, error) {
	if !at.Export.CrossMount {
		return nil, syscall.EXDEV
	}
	placed, ok := vfs.As[vfs.Placed](at.Export.FS)
	if !ok {
		return nil, syscall.EXDEV
	}
	_, dir, err := placed.Place(v.As(at.Export), at.Handle)
	switch {
	case errors.Is(err, vfs.ErrWouldBlock):
		return nil, err
	case err != nil:
		return nil, syscall.EXDEV
	}
	return f.exports.Mounted(v.Conn, v.Caller, at.Export, path.Join(dir, string(name)), v.Op.Try)
}

// Above returns the directory in which export e is attached, or ENOENT if e is the root or not attached.
func (f *FS) Above(v *View, e *export.Export) (Place, error) {
	from, names, err := f.way(v, e)
	switch {
	case err != nil:
		return Place{}, err
	case from == f.export:
		return Place{f.export, f.now().nodeOf(e).parent.handle}, nil
	}
	return f.down(v, from, names[:len(names)-1])
}

// way returns the path to the export e: the export in whose directories e is attached, and the names from
// that export's root to e. In a directory of this package, these are its own export and no names.
func (f *FS) way(v *View, e *export.Export) (from *export.Export, names []string, err error) {
	if m := e.Mount(); m != nil {
		if from, names = f.exports.Way(m); from == nil {
			return nil, nil, syscall.ENOENT
		}
		return from, names, nil
	}
	n := f.now().nodeOf(e)
	if n == nil || n.parent == nil {
		return nil, nil, syscall.ENOENT
	}
	above := n.under(v.Conn, v.Caller)
	if above == nil {
		return f.export, nil, nil
	}
	return above.export, n.namesFrom(above), nil
}

// Covered returns the file ID of the object that the root of e hides (RFC 8881 §5.8.2.23); ok is false if
// it hides none. If e is a mount, the caller has entered it.
func (f *FS) Covered(v *View, e *export.Export) (fileID uint64, ok bool, err error) {
	if e.Mount() != nil {
		var a vfs.Attr
		op := v.As(e)
		op.Want = vfs.WantMountedOn
		err := e.FS.GetAttr(op, e.FS.Root(), &a)
		op.Want = 0
		return a.MountedOn, err == nil && a.MountedOn != 0, err
	}
	from, names, err := f.way(v, e)
	switch {
	case err != nil:
		return 0, false, nil
	case from == f.export:
		return f.now().nodeOf(e).fileID, true, nil
	}
	if fileID, err = f.numberOf(v, from, names); unknown(err) {
		return 0, false, err
	}
	if err != nil {
		fileID = f.now().nodeOf(e).fileID
	}
	return fileID, true, nil
}

// numberOf returns the file ID of the object at the path of these names from the root of an export.
func (f *FS) numberOf(v *View, from *export.Export, names []string) (uint64, error) {
	dir, err := f.down(v, from, names[:len(names)-1])
	if err != nil {
		return 0, err
	}
	if !dir.Export.Enter(v.Conn) {
		return 0, vfs.ErrDelay
	}
	defer dir.Export.Leave(v.Conn)
	var a vfs.Attr
	o, err := dir.Export.FS.Lookup(v.As(dir.Export), dir.Handle, []byte(names[len(names)-1]), &a)
	if err == nil && !o.HasAttr {
		err = vfs.ErrDelay
	}
	return o.Attr.FileID, err
}

// As returns an Op with the caller's identity in e, after Table.Look. It is valid until the next use of v.
func (v *View) As(e *export.Export) *vfs.Op {
	e.Identify(v.Caller, v.Looked, &v.cred)
	v.Op.Cred = &v.cred
	return &v.Op
}

// unknown reports whether err means that the caller must wait and call again.
func unknown(err error) bool {
	if errors.Is(err, vfs.ErrWouldBlock) {
		return true
	}
	_, pending := errors.AsType[export.Pending](err)
	return pending
}

// down follows a path from the root of an export, and through mounts. The error may be an export.Pending.
func (f *FS) down(v *View, from *export.Export, names []string) (at Place, err error) {
	if at.Export, err = f.enter(v, from); err != nil {
		return at, err
	}
	defer func() { at.Export.Leave(v.Conn) }()
	at.Handle = at.Export.FS.Root()
	for _, name := range names {
		var a vfs.Attr
		o, err := at.Export.FS.Lookup(v.As(at.Export), at.Handle, []byte(name), &a)
		if err == nil {
			at.Handle = o.Handle
			continue
		}
		if !errors.Is(err, syscall.EXDEV) {
			return at, err
		}
		into, err := f.Cross(v, &at, []byte(name))
		if err == nil {
			into, err = f.enter(v, into)
		}
		if err != nil {
			return at, err
		}
		at.Export.Leave(v.Conn)
		at = Place{into, into.FS.Root()}
	}
	return at, nil
}

// enter enters an export, or the one that replaced it, and looks up the caller's groups if the export needs
// them. If the export is a mount whose file system is closed, enter opens it.
func (f *FS) enter(v *View, e *export.Export) (*export.Export, error) {
	for {
		if e.Enter(v.Conn) {
			err := f.exports.Look(e, v.Conn, v.Caller, v.Looked)
			if err != nil {
				e.Leave(v.Conn)
			}
			return e, err
		}
		var err error
		if e, err = f.exports.Awake(e, v.Op.Try); err != nil {
			return nil, err
		}
	}
}
