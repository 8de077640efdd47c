package nfs4

import (
	"errors"
	"syscall"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// open is OPEN (RFC 8881 §18.16, RFC 7530 §16.16).
func open(k *Compound, args *wire.Open4Args) Status {
	o := opening{k: k, args: args}
	how := &args.Openhow
	if k.Minor == 0 && (args.Claim.Claim > wire.ClaimDelegatePrev ||
		how.Opentype == wire.Open4Create && how.How.Mode == wire.Exclusive41) {
		return wire.NFS4ErrBadXDR // only later minor versions have these
	}
	var s Status
	if o.client, s = k.ClientOf(args.Owner.Clientid); s != wire.NFS4OK {
		return s
	}
	if k.Op.Try && how.Opentype == wire.Open4Create {
		// If a later step returned Blocked, the whole OPEN would run again without Try, and would
		// try to create the file a second time. So the OPEN does not begin under Try.
		return k.Block(k.FS().Lane())
	}
	if k.minor.sequencer != nil {
		var v state.Verdict
		if o.owner, v = k.Program.state.OwnerOf(o.client, args.Owner.Owner, false); v != state.Granted {
			return k.Answer(v)
		}
	}
	return k.numbered(o.owner, args.Seqid, o.run)
}

// An opening is one OPEN while it is executed: checks of the arguments, the file, the state, and last the
// truncation. If a step fails after the file was opened, the file is closed again.
type opening struct {
	k      *Compound
	args   *wire.Open4Args
	client *state.Client
	owner  *state.Owner // nil from minor version 1 on

	access, deny state.Access
	reclaim      bool

	object Object
	kind   vfs.Type
	// made is true if this OPEN, or an earlier transmission of it, created the file.
	made   bool
	change wire.ChangeInfo4
	// set holds the attributes that this OPEN has set, for the reply (attrset).
	set wire.Bitmap4
	// resize is true if the last step sets the file's size to size.
	resize bool
	size   uint64

	// file is the open file, until the state manager gets it. cutter is a second one, for writing, if the
	// OPEN truncates a file that it does not open for writing. Both are nil without vfs.Opener.
	file, cutter vfs.File
	state        state.Opening
}

func (o *opening) run() Status {
	for _, step := range [...]func(*opening) Status{
		(*opening).checkFlavor, (*opening).shares, (*opening).claim, (*opening).find, (*opening).open, (*opening).share, (*opening).truncate,
	} {
		if s := step(o); s != wire.NFS4OK {
			o.close()
			return s
		}
	}
	if o.cutter != nil {
		o.cutter.Close()
	}
	if i, ok := o.k.minor.Minor.(Identifier); ok {
		i.Opened(o.k, o.client)
	}
	o.answer()
	return wire.NFS4OK
}

// checkFlavor refuses a caller whose flavor the export does not accept. It runs only after the
// owner's seqid is used up, because the client increments its seqid after this error.
func (o *opening) checkFlavor() Status {
	k := o.k
	switch {
	case !k.unsuited:
		return wire.NFS4OK
	case byName(o.args.Claim.Claim):
		return k.wrongSec(&k.Current)
	}
	return k.cannotSay(wire.OpOpen, wire.NFS4ErrAccess)
}

// close closes the open files that this OPEN has not handed over to the state manager.
func (o *opening) close() {
	for _, f := range [...]vfs.File{o.file, o.cutter} {
		if f != nil {
			f.Close()
		}
	}
}

// wants holds the bits of share_access that may be set in addition to the access, from minor version
// 1 on: the wish for a delegation, and OPEN4_SHARE_ACCESS_WANT_DELEG_TIMESTAMPS and
// OPEN4_SHARE_ACCESS_WANT_OPEN_XOR_DELEGATION of RFC 9754 §5, which Linux sends in 4.1 as well.
const wants = wire.Open4ShareAccessWantDelegMask | wire.Open4ShareAccessWantSignalDelegWhenResrcAvail |
	wire.Open4ShareAccessWantPushDelegWhenUncontended | 0x100000 | 0x200000

// shares checks share_access and share_deny (RFC 8881 §18.16.4), and stores them in o.access and
// o.deny. On a read-only export, it refuses an OPEN for writing and an OPEN that creates.
func (o *opening) shares() Status {
	var s Status
	o.access, o.deny, s = shareOf(o.args.ShareAccess, o.args.ShareDeny, o.k.Minor)
	switch {
	case s != wire.NFS4OK:
		return s
	case !o.k.Current.Export.ReadOnly:
	case o.access&state.AccessWrite != 0, o.args.Openhow.Opentype == wire.Open4Create:
		return wire.NFS4ErrROFS
	}
	return wire.NFS4OK
}

func shareOf(access, deny, minor uint32) (a, d state.Access, s Status) {
	if minor > 0 {
		access &^= wants
	}
	if access == 0 || access > wire.Open4ShareAccessBoth || deny > wire.Open4ShareDenyBoth {
		return 0, 0, wire.NFS4ErrInvalid
	}
	return state.Access(access), state.Access(deny), wire.NFS4OK
}

// claim checks the claim: the right by which the client opens the file. Before a client gets its
// first open with this deny mode, claim also stores on disk that the client may hold such opens
// (state.Manager.Record), so that the client may reclaim them after a restart of the server.
func (o *opening) claim() Status {
	claim := o.args.Claim.Claim
	switch claim {
	case wire.ClaimDelegateCur, wire.ClaimDelegCurFH:
		// The server grants no delegations, so none can be turned into an open.
		return wire.NFS4ErrBadStateID
	case wire.ClaimDelegatePrev, wire.ClaimDelegPrevFH:
		// The server keeps no delegations of a client that restarted.
		if o.k.Minor == 0 {
			return wire.NFS4ErrNotSupp
		}
		return wire.NFS4ErrReclaimBad
	case wire.ClaimPrevious, wire.ClaimFH:
		if o.args.Openhow.Opentype == wire.Open4Create {
			return wire.NFS4ErrInvalid
		}
	}
	o.reclaim = claim == wire.ClaimPrevious
	m := o.k.Program.state
	v, first := m.MayHold(o.client, state.KindOpen, o.deny, o.reclaim)
	if v == state.Granted && first {
		v = m.Record(o.client, state.KindOpen, o.deny, &o.k.later)
	}
	return o.k.Answer(v)
}

// find finds the file by its handle or its name, or creates it.
func (o *opening) find() Status {
	k := o.k
	if claim := o.args.Claim.Claim; claim == wire.ClaimFH || claim == wire.ClaimPrevious {
		o.object = k.Current
		s := k.regular()
		o.kind = k.Attr.Type
		return s
	}
	if o.args.Openhow.Opentype == wire.Open4Create {
		return o.create()
	}
	return o.lookup()
}

// lookup finds the file by its name.
func (o *opening) lookup() Status {
	k := o.k
	dir := k.Current
	s := k.may(state.UseNames, &k.Current, nil, nil)
	if s != wire.NFS4OK {
		return s
	}
	if o.object, s = k.child(o.args.Claim.File); s != wire.NFS4OK {
		return s
	}
	if o.object.Export != dir.Export {
		return wire.NFS4ErrIsDir // the root of another export
	}
	o.change = wire.ChangeInfo4{Atomic: true, Before: k.dirChange, After: k.dirChange}
	if k.Attr.Type == 0 {
		if err := k.FS().GetAttr(&k.Op, o.object.Handle, &k.Attr); err != nil {
			return k.Failed(err)
		}
	}
	return k.mustBeRegular(k.Attr.Type)
}

// opens converts a state.Access to the vfs.OpenAccess with the same bits.
func opens(a state.Access) vfs.OpenAccess { return vfs.OpenAccess(a) }

const _ uint = uint(state.AccessRead) - uint(vfs.OpenRead) + uint(state.AccessWrite) - uint(vfs.OpenWrite) // the bits of both types agree

// open opens the file. If the OPEN truncates the file without opening it for writing, open also
// opens o.cutter for writing, which checks the caller's permission to write.
func (o *opening) open() Status {
	var err error
	access := opens(o.access)
	if o.made || o.reclaim {
		access |= vfs.OpenOwner
	}
	if !o.made { // an OPEN that has created its file is not repeated
		if s := o.k.may(state.UseOpen, &o.object, nil, nil); s != wire.NFS4OK {
			return s
		}
	}
	if s := o.mayDeny(); s != wire.NFS4OK {
		return s
	}
	if o.file, err = o.openFile(access); err != nil {
		return o.k.Failed(err)
	}
	if o.resize && o.access&state.AccessWrite == 0 {
		if o.cutter, err = o.openFile(access&vfs.OpenOwner | vfs.OpenWrite); err != nil {
			return o.k.Failed(err)
		}
	}
	return wire.NFS4OK
}

// mayDeny checks that the caller may have the file with a deny mode. That keeps other users from the file, so
// it takes permission to write, even if the client claims the open from before a restart: the records hold
// no names of files, and the client may claim another one. Of a claim it is enough that the caller owns the
// file, because the owner may have taken that permission away from itself since.
func (o *opening) mayDeny() Status {
	if o.deny == 0 || o.made {
		return wire.NFS4OK
	}
	k := o.k
	switch err := k.granted(o.object.Handle, vfs.OpenWrite); {
	case err == nil, errors.Is(err, syscall.EACCES) && o.reclaim && k.Attr.UID == k.Cred.UID:
		return wire.NFS4OK
	case errors.Is(err, syscall.EACCES) && o.reclaim:
		return wire.NFS4ErrReclaimBad
	default:
		return k.Failed(err)
	}
}

// openFile opens the file. If the file system does not implement vfs.Opener, openFile checks the
// caller's permission and returns a nil file.
func (o *opening) openFile(access vfs.OpenAccess) (vfs.File, error) {
	k := o.k
	if opener, ok := vfs.As[vfs.Opener](k.FS()); ok {
		return opener.Open(&k.Op, o.object.Handle, access)
	}
	return nil, k.granted(o.object.Handle, access)
}

// share records the open in the state manager. It fails if another open conflicts.
func (o *opening) share() Status {
	k := o.k
	a := state.OpenArgs{
		Client: o.client, Owner: o.owner, OwnerName: o.args.Owner.Owner,
		Key:    state.FileKey{Domain: state.DomainOf(k.FS()), Handle: o.object.Handle},
		Export: o.object.Export.ID,
		Access: o.access, Deny: o.deny, Claimed: o.reclaim, Roomy: o.made, By: k.principal(&o.object), File: o.file,
	}
	if !o.made { // an OPEN that has created its file is not repeated
		a.Later, a.Try = &k.later, k.Op.Try
	}
	if o.resize {
		a.Needs = state.AccessWrite
	}
	var v state.Verdict
	switch o.state, v = k.Program.state.Open(&a); {
	case v == state.Granted:
		o.file = nil // it belongs to the state manager now
		k.passes.Add(o.state.Pass)
	case v == state.OpenConflict && o.reclaim:
		return wire.NFS4ErrReclaimConflict
	}
	return k.Answer(v)
}

// truncate sets the file's size. The method share has already checked that no other open conflicts.
func (o *opening) truncate() Status {
	if !o.resize {
		return wire.NFS4OK
	}
	k := o.k
	f := o.cutter
	if f == nil {
		f, _ = o.state.For(state.AccessWrite, k.principal(&o.object))
	}
	var err error
	if f != nil {
		_, err = f.SetSize(&k.Op, o.size)
	} else {
		set := vfs.SetAttr{SetSize: true, Size: o.size}
		_, err = k.FS().SetAttr(&k.Op, o.object.Handle, &set, nil)
	}
	if err != nil {
		k.Program.state.TakeBack(&o.state)
		return k.closedOr(err)
	}
	o.set.Set(wire.Fattr4Size)
	return wire.NFS4OK
}

// granted returns nil if the caller has permission for access, or if access has the bit OpenOwner, because
// the OPEN then made the file or reclaims access that was granted earlier. Otherwise it returns EACCES, or
// the error of the file system.
func (k *Compound) granted(h vfs.Handle, access vfs.OpenAccess) error {
	if access&vfs.OpenOwner != 0 {
		return nil
	}
	var want vfs.Access
	const toRead = vfs.AccessRead | vfs.AccessExecute
	if access&vfs.OpenRead != 0 {
		want |= toRead
	}
	if access&vfs.OpenWrite != 0 {
		want |= vfs.AccessModify
	}
	has, err := k.FS().Access(&k.Op, h, want, &k.Attr)
	switch {
	case err != nil:
		return err
	case want&toRead != 0 && has&toRead == 0, want&vfs.AccessModify&^has != 0:
		return syscall.EACCES
	}
	return nil
}

// answer writes the result and makes the file and its stateid current.
func (o *opening) answer() {
	k := o.k
	res := wire.Open4ResOK{
		Stateid: wire.StateID4(o.state.ID), Cinfo: o.change, Rflags: wire.Open4ResultLocktypePosix, Attrset: o.set,
		Delegation: o.delegation(),
	}
	if o.state.Confirm {
		res.Rflags |= wire.Open4ResultConfirm
	}
	if k.Minor > 0 && k.Program.state.NotifiesLocks() {
		res.Rflags |= wire.Open4ResultMayNotifyLock
	}
	res.Encode(k.W)
	k.SetCurrent(o.object)
	k.StateID = o.state.ID
}

// delegation returns the part of the OPEN's result that is about a delegation. It says that the
// server grants none and, if the client expressed a wish, for what reason (RFC 8881 §18.16.3).
func (o *opening) delegation() (d wire.OpenDelegation4) {
	want := o.args.ShareAccess & wire.Open4ShareAccessWantDelegMask
	if o.k.Minor == 0 || want == wire.Open4ShareAccessWantNoPreference {
		return d
	}
	d.DelegationType = wire.OpenDelegateNoneExt
	switch want {
	case wire.Open4ShareAccessWantNoDeleg:
		d.Whynone.Why = wire.Wnd4NotWanted
	case wire.Open4ShareAccessWantCancel:
		d.Whynone.Why = wire.Wnd4Cancelled
	default:
		d.Whynone.Why = wire.Wnd4Resource
	}
	return d
}

// create creates the file, or finds it. It does not truncate an existing file, because the
// check for conflicting opens comes later.
func (o *opening) create() Status {
	k := o.k
	name := o.args.Claim.File
	if s := k.checkName(name); s != wire.NFS4OK {
		return s
	}
	how := &o.args.Openhow.How
	var a assignment
	mode := vfs.CreateMode(min(how.Mode, wire.Exclusive4)) // the last one, EXCLUSIVE4_1, is exclusive, too
	c := vfs.CreateHow{Mode: mode, Verifier: how.Createverf}
	attrs := &how.Createattrs // empty if the mode is EXCLUSIVE4
	if how.Mode == wire.Exclusive41 {
		c.Verifier, attrs = how.Createboth.Verf, &how.Createboth.Attrs
	}
	if s := k.assign(attrs, &a); s != wire.NFS4OK {
		return s
	}
	if beyond := attrs.Attrmask.Without(&exclusive); how.Mode == wire.Exclusive41 && !beyond.IsEmpty() {
		return wire.NFS4ErrInvalid
	}
	if v := k.Program.state.RoomToOpen(o.client, state.DomainOf(k.FS())); v != state.Granted {
		return k.Answer(v)
	}
	c.Attr = a.set
	c.Attr.SetSize, c.Attr.Size = false, 0
	if s := k.maySet(state.UseCreate, &k.Current, name, &c.Attr); s != wire.NFS4OK {
		return s
	}
	made, ch, err := k.FS().Create(&k.Op, k.Current.Handle, name, &c)
	if err != nil {
		return o.notMade(err, c.Mode)
	}
	k.passes.Done() // the directory's change has ended, and the open of the file must not wait for it
	o.object, o.made = Object{k.Current.Export, made.Handle}, made.Created
	o.change = changeInfo(&ch)
	if !made.HasAttr {
		if err := k.FS().GetAttr(&k.Op, made.Handle, &made.Attr); err != nil {
			return k.Failed(err)
		}
		made.HasAttr = true
	}
	if s := k.mustBeRegular(made.Attr.Type); s != wire.NFS4OK {
		return s
	}
	o.assigned(&a, &made, how.Mode)
	return wire.NFS4OK
}

// notMade returns the status after Create failed. If an UNCHECKED4 OPEN fails because the
// name belongs to an object that is no regular file, the status names the object's type.
func (o *opening) notMade(err error, mode vfs.CreateMode) Status {
	if mode == vfs.Unchecked && errors.Is(err, syscall.EEXIST) {
		if s := o.lookup(); s != wire.NFS4OK {
			return s
		}
	}
	return o.k.notDirectory(err)
}

// assigned records the attributes that were set, and the size that is still to be set: the requested size
// of a new file, or 0 for an existing file that is truncated (RFC 8881 §18.16.3).
func (o *opening) assigned(a *assignment, made *vfs.Object, mode wire.Createmode4) {
	if o.made {
		o.set = a.applied(made)
		o.resize, o.size = a.set.SetSize && a.set.Size > 0, a.set.Size
	} else {
		o.resize = a.set.SetSize && a.set.Size == 0
	}
	if mode == wire.Exclusive4 || mode == wire.Exclusive41 {
		// The file system may keep the verifier in the times, so the client must set the times again.
		o.set.Set(wire.Fattr4TimeAccess)
		o.set.Set(wire.Fattr4TimeModify)
	}
}
