package nfs3

import (
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Sizes of the parts of a listing without the names, in bytes (RFC 1813 §3.3.16, §3.3.17).
const (
	entryFixed  = 4 + 8 + 4 + 8 // follows, fileid, name's length, cookie
	plusFixed   = 4 + 4 + 4     // attributes follow, handle follows, handle's length
	listTail    = 4 + 4         // end of list, eof
	fattr3Bytes = wire.Fattr3MaxSize
)

// A lister writes entries into a result until the result is full.
type lister struct {
	r *request
	// left is the number of bytes that the result may still take. dirLeft is the number of bytes that names
	// and cookies may still take; it comes from READDIRPLUS's dircount, which is a hint.
	left, dirLeft int
	plus          bool
	entries       int
	full          bool
}

// emit writes one entry. It returns false if the entry does not fit.
func (l *lister) emit(e *vfs.DirEntry) bool {
	size := entryFixed + len(e.Name) + xdr.Pad(len(e.Name))
	dirSize := size
	var handle wire.FileHandle3
	if l.plus {
		size += plusFixed
		e.HasAttr = e.HasAttr && l.r.shows(l.r.fs(), e.Handle)
		if e.HasAttr {
			size += fattr3Bytes
		}
		if !e.Handle.IsZero() {
			handle = l.r.seal(e.Handle)
			size += len(handle.Data) + xdr.Pad(len(handle.Data))
		}
	}
	// dircount never excludes the first entry, because it is a hint about how much of the
	// directory to read at a time, and not a limit of the result.
	if size > l.left || (dirSize > l.dirLeft && l.entries > 0) {
		l.full = true
		return false
	}
	l.left -= size
	l.dirLeft -= dirSize
	l.entries++
	if !l.plus {
		entry := wire.Entry3{FileID: e.FileID, Name: e.Name, Cookie: e.Cookie}
		wire.PutEntry3(l.r.w, &entry)
		return true
	}
	entry := wire.EntryPlus3{FileID: e.FileID, Name: e.Name, Cookie: e.Cookie}
	if e.HasAttr {
		entry.NameAttributes = postOp(&e.Attr)
	}
	if len(handle.Data) > 0 {
		entry.NameHandle = wire.PostOpFH3{HandleFollows: true, Handle: handle}
	}
	wire.PutEntryPlus3(l.r.w, &entry)
	return true
}

// readdir is READDIR (RFC 1813 §3.3.16).
func (r *request) readdir(args *wire.Readdir3Args, res *listing) error {
	return r.listDirectory(res, args.Cookie, args.Count, args.Count, false)
}

// readdirPlus is READDIRPLUS (RFC 1813 §3.3.17).
func (r *request) readdirPlus(args *wire.ReaddirPlus3Args, res *listing) error {
	return r.listDirectory(res, args.Cookie, args.DirCount, args.MaxCount, true)
}

// A listing is the result of READDIR or READDIRPLUS. If the call succeeds, listDirectory writes the
// result while it lists the directory.
type listing struct{ wire.Readdir3Res }

// Encode writes the result of a call that failed.
func (l *listing) Encode(w *xdr.Writer) {
	if l.Status != wire.NFS3OK {
		l.Readdir3Res.Encode(w)
	}
}

// listDirectory executes READDIR and READDIRPLUS. Their results differ only in the entries. Cookie
// verifiers are zero and are not checked, because cookies stay valid while a directory changes.
func (r *request) listDirectory(res *listing, cookie uint64, dirCount, maxCount uint32, plus bool) error {
	// The directory's attributes precede the entries in the result, but ReadDir returns both
	// together. The space for the attributes is reserved here and filled in at the end.
	start := r.w.Len()
	room := min(int(min(maxCount, nfs.MaxDirectory)), r.call.WordsRoom(r.w)-4)
	head := 4 + wire.PostOpAttrMaxSize + wire.CookieVerfSize
	r.w.Reserve(min(head, r.w.Available()))
	r.list = lister{
		r: r, plus: plus, dirLeft: int(min(dirCount, nfs.MaxDirectory)),
		left: room - wire.PostOpAttrMaxSize - wire.CookieVerfSize - listTail,
	}
	eof, err := r.fs().ReadDir(&r.op, r.handle, cookie, plus, &r.attr, r.list.emit)
	if err == nil && r.attr.Type == 0 {
		// Without attributes the head would be shorter than the reserved space, so get them.
		err = r.fs().GetAttr(&r.op, r.handle, &r.attr)
	}
	res.Status = export.StatusOf(err)
	if err == nil && r.list.entries == 0 && r.list.full {
		res.Status = wire.NFS3ErrTooSmall
	}
	if res.Status != wire.NFS3OK {
		r.w.Truncate(start)
		res.ResFail.DirAttributes = postOp(&r.attr)
		return err
	}
	wire.EndEntry3List(r.w)
	r.w.Bool(eof)
	if r.w.Overflow() {
		return nil // package rpc answers with an error instead, because the reply is too long
	}
	var headWriter xdr.Writer
	headWriter.Reset(r.w.Bytes()[start : start : start+head])
	res.ResOK.DirAttributes = postOp(&r.attr)
	res.Status.Encode(&headWriter)
	res.ResOK.DirAttributes.Encode(&headWriter)
	res.ResOK.CookieVerf.Encode(&headWriter)
	return nil
}
