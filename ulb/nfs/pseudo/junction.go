package pseudo

import (
	"errors"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A Place is an object and the export that it is in.
type Place struct {
	Export *export.Export
	Handle vfs.Handle
}

// A View is who looks: a peer sees the exports that serve it, and walks through their
// directories with the caller's own rights.
type View struct {
	Conn   *rpc.Conn
	Caller *rpc.Cred
	// Op is used with the identity that the caller has where it walks. Its Try is kept:
	// the methods that take a View answer vfs.ErrWouldBlock then.
	Op vfs.Op
	// cred is what Op.Cred points to.
	cred vfs.Cred
}

// Start is what the tree begins with for a peer.
func (f *FS) Start(c *rpc.Conn) Place {
	t := f.now()
	if t.root.serves(c) {
		return Place{t.root.export, t.root.export.FS.Root()}
	}
	return Place{f.export, t.root.handle}
}

// MayLead says, without a look at a file system, whether a name in some directory of e
// may be one that Below knows something of.
func (f *FS) MayLead(e *export.Export, name []byte) bool {
	if e == f.export {
		return true
	}
	t := f.now()
	above := t.byExport[e.ID]
	return above != nil && len(above.children) > 0 && len(t.byName[string(name)]) > 0
}

// Path is where an export hangs in the tree; "/" for one that does not.
func (f *FS) Path(e *export.Export) string {
	if n := f.now().byExport[e.ID]; n != nil {
		return n.path
	}
	return "/"
}

// Below says whether a name in the directory at leads into an export: then junction is
// the root of that. hidden: the name is a directory of this package that leads to no
// export that the peer sees. Where it is neither, the file system of at knows the name,
// or nobody does. The export of at has been entered.
func (f *FS) Below(v *View, at *Place, name []byte) (junction *export.Export, hidden bool, err error) {
	t := f.now()
	if at.Export == f.export {
		n := t.byHandle[at.Handle]
		if n == nil {
			return nil, false, nil
		}
		switch n = n.children[string(name)]; {
		case n == nil:
			return nil, false, nil
		case n.serves(v.Conn):
			return n.export, false, nil
		}
		return nil, !n.leads(v.Conn), nil
	}
	above := t.byExport[at.Export.ID]
	if above == nil || len(above.children) == 0 {
		return nil, false, nil
	}
	for _, n := range t.byName[string(name)] {
		if n.parent == nil || !n.serves(v.Conn) || n.under(v.Conn) != above {
			continue
		}
		dir, err := v.walk(above, n.parent)
		switch {
		case errors.Is(err, vfs.ErrWouldBlock):
			return nil, false, err
		case err == nil && dir == at.Handle:
			return n.export, false, nil
		}
	}
	return nil, false, nil
}

// Above is the directory in which the export e hangs; ENOENT where that is the root of
// all, or is no directory at present.
func (f *FS) Above(v *View, e *export.Export) (Place, error) {
	n := f.now().byExport[e.ID]
	if n == nil || n.parent == nil {
		return Place{}, syscall.ENOENT
	}
	above := n.under(v.Conn)
	if above == nil {
		return Place{f.export, n.parent.handle}, nil
	}
	if !above.export.Enter(v.Conn) {
		return Place{}, vfs.ErrDelay
	}
	defer above.export.Leave(v.Conn)
	dir, err := v.walk(above, n.parent)
	return Place{above.export, dir}, err
}

// Covered is the number of the object that the root of e hides (RFC 8881 §5.8.2.23);
// false where it hides none.
func (f *FS) Covered(v *View, e *export.Export) (fileID uint64, ok bool, err error) {
	n := f.now().byExport[e.ID]
	if n == nil || n.parent == nil {
		return 0, false, nil
	}
	above := n.under(v.Conn)
	if above == nil {
		return n.fileID, true, nil
	}
	if !above.export.Enter(v.Conn) {
		return n.fileID, true, nil
	}
	defer above.export.Leave(v.Conn)
	dir, err := v.walk(above, n.parent)
	if err == nil {
		var a vfs.Attr
		var o vfs.Object
		if o, err = above.export.FS.Lookup(v.As(above.export), dir, []byte(n.name), &a); err == nil && o.HasAttr {
			return o.Attr.FileID, true, nil
		}
	}
	if errors.Is(err, vfs.ErrWouldBlock) {
		return 0, false, err
	}
	return n.fileID, true, nil
}

// As is an Op of the caller as the one it is in e, until the next use of v.
func (v *View) As(e *export.Export) *vfs.Op {
	e.Identify(v.Caller, &v.cred)
	v.Op.Cred = &v.cred
	return &v.Op
}

// walk goes through the directories of the export at above, which has been entered, to
// where n stands, which is above itself or beneath it.
func (v *View) walk(above, n *node) (vfs.Handle, error) {
	if n == above {
		return above.export.FS.Root(), nil
	}
	dir, err := v.walk(above, n.parent)
	if err != nil {
		return dir, err
	}
	var a vfs.Attr
	o, err := above.export.FS.Lookup(v.As(above.export), dir, []byte(n.name), &a)
	return o.Handle, err
}
