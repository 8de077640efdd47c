// Package mount3 is MOUNT version 3 (RFC 1813 appendix I). It turns the path of an export, or of a
// directory beneath one, into the file handle with which NFSv3 begins. It is served on NFS's own
// ports, so that clients need no port mapper (mount options mountport=2049,mountproto=tcp).
//
// The package keeps a list of clients and their mounts in memory, so that DUMP can show it to
// people. Nothing else depends on the list, and its length is limited (maxMounts).
package mount3

import (
	"errors"
	"iter"
	"slices"
	"sync/atomic"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/mount3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/pseudo"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A Program serves MOUNT version 3.
type Program struct {
	nfs.Service
	exports *export.Table
	mounts  mountList
	// exported is the last list that EXPORT showed.
	exported atomic.Pointer[exportList]
	// names finds the exports of mounts below another export. If it is nil, no path leads from
	// an export into a mount.
	names *pseudo.FS
}

// New returns a program that serves exports.
func New(exports *export.Table) *Program {
	return &Program{
		Service: nfs.Service{Program: wire.Program, Version: wire.Version, Procedures: &nfs.BindingMount3},
		exports: exports, names: pseudo.Of(exports),
	}
}

// Judge admits every client, because mnt checks whether the export serves the client. For DUMP and EXPORT
// it computes the present size of the list, so that the server reserves no more memory than that.
func (p *Program) Judge(a *rpc.Arrived, j *rpc.Judgement) rpc.Outcome {
	switch wire.Procedure(a.Header.Procedure) {
	case wire.ProcMnt:
		if e, _, ok := p.exports.Resolve(string(j.Object)); ok {
			j.Lane = e.FS.Lane()
			j.Known = e.Serves(a.Conn, &a.Cred)
		}
	case wire.ProcDump:
		size := listEnd
		for _, list := range p.shownMounts(a.Conn) {
			size += len(list)
		}
		j.Words = min(size, nfs.MaxMountReply)
	case wire.ProcExport:
		size := listEnd
		for entry := range p.shown(a.Conn) {
			size += len(entry)
		}
		j.Words = min(size, nfs.MaxMountReply)
	}
	return rpc.Done
}

// listEnd is the size of the word that ends a list, in bytes.
const listEnd = 4

// Serve runs one procedure.
func (p *Program) Serve(c *rpc.Call, w *xdr.Writer) rpc.Outcome {
	switch wire.Procedure(c.Header.Procedure) {
	case wire.ProcMnt:
		return p.mnt(c, w)
	case wire.ProcDump:
		return p.dump(c, w)
	case wire.ProcUmnt:
		var dir wire.DirPath
		dir.Decode(&c.Args)
		if c.Args.Finish() != nil {
			return rpc.GarbageArgs
		}
		p.mounts.remove(peerName(c), func(m *mounted) bool { return m.dir == string(dir) })
	case wire.ProcUmntall:
		p.mounts.remove(peerName(c), func(*mounted) bool { return true })
	case wire.ProcExport:
		return p.export(c, w)
	}
	if c.Args.Finish() != nil {
		return rpc.GarbageArgs
	}
	return rpc.Done
}

// mnt is MNT (RFC 1813 §5.2.1).
func (p *Program) mnt(c *rpc.Call, w *xdr.Writer) rpc.Outcome {
	var dir wire.DirPath
	dir.Decode(&c.Args)
	if c.Args.Finish() != nil {
		return rpc.GarbageArgs
	}
	var res wire.MountRes3
	refuse := func(e *export.Export, status wire.Stat3, why export.Reason) rpc.Outcome {
		p.exports.OnRefusal(&export.Refusal{Client: c.Conn.Peer, Path: string(dir), Export: e, Status: status, Reason: why})
		res.Status = status
		res.Encode(w)
		return rpc.Failed
	}
	e, names, ok := p.exports.Resolve(string(dir))
	switch {
	case !ok:
		return refuse(nil, wire.ErrNoEnt, export.NoExport)
	case !e.ServesAddr(c.Conn.Peer.Addr()):
		return refuse(e, wire.ErrAccess, export.NotAClient)
	case !e.Serves(c.Conn, &c.Cred):
		return refuse(e, wire.ErrAccess, export.UnprivilegedPort)
	case e.Refuses(&c.Cred):
		return refuse(e, wire.ErrAccess, export.NoAccount)
	}
	var who export.Looked
	if err := p.exports.Look(e, c.Conn, &c.Cred, &who); err != nil {
		if pending, ok := errors.AsType[export.Pending](err); ok {
			lane := e.FS.Lane()
			c.WaitsFor(rpc.WaitUser)
			c.Detach()
			pending.Await(func() { c.Resume(lane) })
			return rpc.Outcome{Pending: true}
		}
		return refuse(e, wire.ErrServerFault, export.NoGroups) // MOUNT has no status that means "later"
	}
	at, out, err := p.walk(c, e, &who, names)
	switch {
	case out.Block || out.Pending:
		return out
	case err != nil:
		return refuse(e, status(err), export.FileSystem)
	}
	p.mounts.add(peerName(c), string(dir), e.ID)
	var sealed [export.MaxSealed]byte
	res.ResOK.FileHandle = p.exports.Seal(sealed[:0], at.Export, at.Handle)
	res.EncodeHead(w)
	putFlavors(w, at.Export, c.Conn)
	res.EncodeTail(w)
	return rpc.Done
}

// putFlavors writes the flavors under which the export serves a client (RFC 2623 §2.6).
func putFlavors(w *xdr.Writer, e *export.Export, c *rpc.Conn) {
	flavors := e.SecurityFor(c.Peer.Addr())
	if len(flavors) == 0 {
		flavors = export.Securities[:1]
	}
	w.Uint32(uint32(len(flavors)))
	for _, f := range flavors {
		w.Uint32(uint32(f))
	}
}

// anonymous returns the credential that replaces c if the export does not accept its flavor. MNT must
// serve such a caller, because a client asks for a handle before it has a user's credential (RFC 2623
// §2.3.2), but the caller must not learn the content of directories that only some users may search. The
// flavor decides which exports serve it, so it stays.
func anonymous(c *rpc.Cred) *rpc.Cred {
	return &rpc.Cred{Flavor: c.Flavor, UID: rpc.NobodyID, GID: rpc.NobodyID, Anonymous: true}
}

// walk goes from an export's root to a directory below it, with the caller's rights, also
// through mounts. If out is not Done, the call has to wait, and Serve returns out. When the
// call continues, the walk starts again at the export's root.
func (p *Program) walk(c *rpc.Call, e *export.Export, who *export.Looked, names []string) (at pseudo.Place, out rpc.Outcome, err error) {
	v := pseudo.View{Conn: c.Conn, Caller: &c.Cred, Looked: who} // mounts below e have the options of e
	if !e.Admits(c.Conn, &c.Cred) {
		v.Caller = anonymous(&c.Cred)
	}
	v.Op.Try = c.Try
	for depth := 0; ; depth++ {
		into, lane, err := p.walkIn(c, &v, e, depth, &at, &names)
		switch {
		case errors.Is(err, vfs.ErrWouldBlock):
			c.Progress = stage{depth, lane}
			return at, rpc.WouldBlock(lane), nil
		case errors.Is(err, errElsewhere):
			c.Progress = stage{depth, lane}
			c.Detach()
			c.Resume(lane)
			return at, rpc.Outcome{Pending: true}, nil
		case err != nil || into == nil:
			return at, rpc.Done, err
		}
		e = into
	}
}

// A stage records how far a walk came before it had to wait: the number of exports that it had
// crossed into, and the resource that the walk waits for (rpc.Call.Resume).
type stage struct {
	depth int
	lane  any
}

// errElsewhere means that a walk continues in the executor's queue (lane) of another file system. If
// the walk stalls there, calls for other file systems do not wait for it.
var errElsewhere = errors.New("mount3: the walk continues in another lane")

// walkIn follows the path within one export, and removes from names the elements that it has
// followed. into is the export that the next element leads into, or nil if the walk ends here. If the
// error is vfs.ErrWouldBlock or errElsewhere, lane is the resource that the walk waits for.
func (p *Program) walkIn(
	c *rpc.Call, v *pseudo.View, e *export.Export, depth int, at *pseudo.Place, names *[]string,
) (into *export.Export, lane any, err error) {
	for !e.Enter(v.Conn) {
		lane = e.FS.Lane()
		if e, err = p.exports.Awake(e, c.Try); err != nil {
			return nil, lane, err
		}
		if !e.Serves(v.Conn, v.Caller) {
			return nil, nil, syscall.EACCES
		}
	}
	defer e.Leave(v.Conn)
	lane = e.FS.Lane()
	if was, _ := c.Progress.(stage); !c.Try && depth > was.depth && was.lane != lane {
		return nil, lane, errElsewhere
	}
	at.Export, at.Handle = e, e.FS.Root()
	var a vfs.Attr
	for ; len(*names) > 0; *names = (*names)[1:] {
		name := []byte((*names)[0])
		obj, err := e.FS.Lookup(v.As(e), at.Handle, name, &a)
		if errors.Is(err, syscall.EXDEV) && p.names != nil {
			if into, err = p.names.Cross(v, at, name); err == nil {
				*names = (*names)[1:]
				return into, lane, nil
			}
		}
		if err != nil {
			return nil, lane, err
		}
		at.Handle = obj.Handle
	}
	err = e.FS.GetAttr(v.As(e), at.Handle, &a)
	if err == nil && a.Type != vfs.Directory && at.Handle != e.FS.Root() {
		err = syscall.ENOTDIR
	}
	return nil, lane, err
}

// status maps a file system's errors to MOUNT's (RFC 1813 §5.1.5).
func status(err error) wire.Stat3 {
	switch {
	case err == nil:
		return wire.OK
	case errors.Is(err, syscall.EPERM):
		return wire.ErrPerm
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ESTALE):
		return wire.ErrNoEnt
	case errors.Is(err, syscall.EACCES):
		return wire.ErrAccess
	case errors.Is(err, syscall.ENOTDIR):
		return wire.ErrNotDir
	case errors.Is(err, syscall.EINVAL):
		return wire.ErrInvalid
	case errors.Is(err, syscall.ENAMETOOLONG):
		return wire.ErrNameTooLong
	case errors.Is(err, vfs.ErrNotSupported):
		return wire.ErrNotSupp
	}
	return wire.ErrIO
}

// listRoom returns the number of bytes that the entries of a list may take, so that the list
// ends before the reply is full.
func listRoom(c *rpc.Call, w *xdr.Writer) int { return c.WordsRoom(w) - listEnd }

// exportList has the exports of a table, each with its entry as EXPORT sends it.
type exportList struct {
	of      []*export.Export
	entries [][]byte
}

// encodedExports returns the list for the exports that are served now. It encodes them when they have changed.
func (p *Program) encodedExports() *exportList {
	of := p.exports.All()
	l := p.exported.Load()
	if l != nil && slices.Equal(l.of, of) {
		return l
	}
	l = &exportList{of: of}
	for _, e := range of {
		size := 4 + 4 + len(e.Name) + xdr.Pad(len(e.Name)) + 4
		for _, n := range e.Clients {
			size += 4 + 4 + len(n.String()) + 3
		}
		var w xdr.Writer
		w.Reset(make([]byte, 0, size))
		node := wire.Export{Dir: []byte(e.Name)}
		wire.PutExportHead(&w, &node)
		for _, n := range e.Clients {
			wire.PutGroup(&w, &wire.Group{Name: []byte(n.String())})
		}
		wire.EndGroupList(&w)
		node.EncodeTail(&w)
		l.entries = append(l.entries, w.Bytes())
	}
	p.exported.Store(l)
	return l
}

// shown yields the entries of the exports that the reply to EXPORT shows to a client: those that serve its
// address, whatever its port, because ordinary users, who cannot use a privileged port, run showmount.
func (p *Program) shown(c *rpc.Conn) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		l := p.encodedExports()
		for i, e := range l.of {
			if e.ServesAddr(c.Peer.Addr()) && !yield(l.entries[i]) {
				return
			}
		}
	}
}

// shownMounts returns the encoded mounts of the exports that serve the client's address.
func (p *Program) shownMounts(c *rpc.Conn) (encoded [][]byte) {
	for _, of := range p.mounts.lists() {
		if e := p.exports.ByID(of.id); e != nil && e.ServesAddr(c.Peer.Addr()) {
			encoded = append(encoded, p.mounts.encode(of))
		}
	}
	return encoded
}

// dump is DUMP (RFC 1813 §5.2.2), limited to the exports that serve the caller.
func (p *Program) dump(c *rpc.Call, w *xdr.Writer) rpc.Outcome {
	if c.Args.Finish() != nil {
		return rpc.GarbageArgs
	}
	room := listRoom(c, w)
	for _, list := range p.shownMounts(c.Conn) {
		fits := mountsWithin(list, room)
		w.FixedOpaque(list[:fits])
		if fits < len(list) {
			break
		}
		room -= fits
	}
	wire.EndMountList(w)
	return rpc.Done
}

// export is EXPORT (RFC 1813 §5.2.5), limited to the exports that serve the caller.
func (p *Program) export(c *rpc.Call, w *xdr.Writer) rpc.Outcome {
	if c.Args.Finish() != nil {
		return rpc.GarbageArgs
	}
	room := listRoom(c, w)
	for entry := range p.shown(c.Conn) {
		if room -= len(entry); room < 0 {
			break
		}
		w.FixedOpaque(entry)
	}
	wire.EndExportList(w)
	return rpc.Done
}
