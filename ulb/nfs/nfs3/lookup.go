package nfs3

import (
	"bytes"
	"errors"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/pseudo"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// maxName is the length of the longest name that any file system here can have, in bytes.
// Longer names are refused without a call to the file system.
const maxName = 255

// checkName refuses empty names, names longer than maxName, and names with a slash or a zero
// byte, because they must not reach a file system.
func checkName(name []byte) error {
	switch {
	case len(name) == 0:
		return syscall.EACCES // Linux's server answers the same, so clients expect it
	case len(name) > maxName:
		return syscall.ENAMETOOLONG
	case bytes.IndexByte(name, '/') >= 0, bytes.IndexByte(name, 0) >= 0:
		return syscall.EINVAL
	}
	return nil
}

// lookup is LOOKUP (RFC 1813 §3.3.3).
func (r *request) lookup(args *wire.Lookup3Args, res *wire.Lookup3Res) error {
	e, obj, err := r.child(args.What.Name)
	if res.Status = export.StatusOf(err); err == nil {
		res.ResOK.Object = r.sealOf(e, obj.Handle)
		if obj.HasAttr && r.shows(e.FS, obj.Handle) {
			res.ResOK.ObjAttributes = postOp(&obj.Attr)
		}
	}
	res.ResOK.DirAttributes = postOp(&r.attr)
	res.ResFail.DirAttributes = res.ResOK.DirAttributes
	return err
}

// child looks up a name. It returns the object and the export that the object is in.
func (r *request) child(name []byte) (e *export.Export, obj vfs.Object, err error) {
	if err = checkName(name); err != nil {
		return nil, obj, err
	}
	if r.export.Mount() != nil && r.handle == r.fs().Root() && string(name) == ".." {
		return r.above()
	}
	obj, err = r.fs().Lookup(&r.op, r.handle, name, &r.attr)
	if r.export.CrossMount && errors.Is(err, syscall.EXDEV) {
		return r.cross(name)
	}
	return r.export, obj, err
}

// look returns a pseudo.View through which the procedure looks up names in other exports, with the
// rights of the caller.
func (r *request) look() *pseudo.View {
	r.view.Conn, r.view.Caller, r.view.Op.Try = r.call.Conn, &r.call.Cred, r.op.Try
	r.view.Looked = &r.looked // valid for a mount too, because a mount has the options of the export above it
	return &r.view
}

// cross returns the root of the file system that is mounted on the name, in the directory r.handle.
func (r *request) cross(name []byte) (e *export.Export, obj vfs.Object, err error) {
	if r.program.names == nil {
		return nil, obj, syscall.EXDEV
	}
	at := pseudo.Place{Export: r.export, Handle: r.handle}
	if e, err = r.program.names.Cross(r.look(), &at, name); err != nil {
		return nil, obj, err
	}
	if !e.Enter(r.call.Conn) {
		return nil, obj, vfs.ErrDelay
	}
	defer e.Leave(r.call.Conn)
	obj.Handle = e.FS.Root()
	r.peek(e, &obj)
	return e, obj, nil
}

// above returns the directory above the root of a mount. r.handle is that root.
func (r *request) above() (e *export.Export, obj vfs.Object, err error) {
	if err = r.fs().GetAttr(&r.op, r.handle, &r.attr); err != nil {
		return nil, obj, err
	}
	p, err := r.program.names.Above(r.look(), r.export)
	if err != nil {
		return nil, obj, err
	}
	if obj.Handle = p.Handle; p.Export.Enter(r.call.Conn) {
		defer p.Export.Leave(r.call.Conn)
		r.peek(p.Export, &obj)
	}
	return p.Export, obj, nil
}

// peek adds the attributes of obj, an object of export e, if e accepts the caller and its file system has
// them without a wait. It must not wait, because the executor counts this call for the file system of
// r.export, not of e. If the attributes are missing, the client asks for them in another call.
func (r *request) peek(e *export.Export, obj *vfs.Object) {
	if !e.Admits(r.call.Conn, &r.call.Cred) || e.Refuses(&r.call.Cred) {
		return
	}
	op := r.look().As(e)
	op.Try = true
	obj.HasAttr = e.FS.GetAttr(op, obj.Handle, &obj.Attr) == nil
}

// readlink is READLINK (RFC 1813 §3.3.5). An RDMA transport may write the link's text straight into
// the client's memory.
func (r *request) readlink(args *wire.Readlink3Args, res *wire.Readlink3Res) error {
	text := r.call.ResultMemory(nfs.MaxPath)
	if text == nil {
		return errNoMemory
	}
	n, err := r.fs().ReadLink(&r.op, r.handle, text, &r.attr)
	res.Status = export.StatusOf(err)
	res.ResOK.SymlinkAttributes = postOp(&r.attr)
	res.ResFail.SymlinkAttributes = res.ResOK.SymlinkAttributes
	if err == nil {
		res.ResOK.Data = r.call.Eligible(text[:n:n])
	}
	return err
}
