package nfs4

import (
	"errors"
	"math/bits"
	"strconv"
	"strings"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/identity"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Longest encoded names and paths in attribute values, in bytes.
const (
	mostName = 4 + 128 // of an owner or a group: a name, '@', and a domain; a Linux client has room for no longer one
	mostPath = 1024    // of a path among fs_locations
)

// attributeTable lists the supported attributes. An attribute that is not listed is not supported.
var attributeTable = []attribute{
	{number: wire.Fattr4SupportedAttrs, need: needAttr | needBirth, most: wire.Bitmap4MaxSize, get: func(w *xdr.Writer, f *facts) { set := f.served(); set.Encode(w) }, skip: skipBitmap},
	{number: wire.Fattr4Type, need: needAttr, most: 4, get: func(w *xdr.Writer, f *facts) { w.Uint32(uint32(f.attr.Type)) }},
	{number: wire.Fattr4FHExpireType, most: 4, get: func(w *xdr.Writer, f *facts) { w.Uint32(wire.FH4Persistent) }},
	{number: wire.Fattr4Change, need: needAttr, most: 8, get: func(w *xdr.Writer, f *facts) { w.Uint64(f.attr.Change) }},
	{number: wire.Fattr4Size, need: needAttr, most: 8, get: func(w *xdr.Writer, f *facts) { w.Uint64(f.attr.Size) }, set: setSize},
	{number: wire.Fattr4LinkSupport, need: needInfo, most: 4, get: func(w *xdr.Writer, f *facts) { w.Bool(f.info.HardLinks) }},
	{number: wire.Fattr4SymlinkSupport, need: needInfo, most: 4, get: func(w *xdr.Writer, f *facts) { w.Bool(f.info.Symlinks) }},
	{number: wire.Fattr4NamedAttr, most: 4, get: func(w *xdr.Writer, f *facts) { w.Bool(false) }},
	{number: wire.Fattr4FSID, need: needAttr, most: 16, get: func(w *xdr.Writer, f *facts) { w.Uint64(uint64(f.object.Export.ID)); w.Uint64(f.attr.FSID) }},
	{number: wire.Fattr4UniqueHandles, most: 4, get: func(w *xdr.Writer, f *facts) { w.Bool(true) }},
	{number: wire.Fattr4LeaseTime, most: 4, get: func(w *xdr.Writer, f *facts) { w.Uint32(uint32(f.k.Program.state.Lease().Seconds())) }},
	{number: wire.Fattr4RdattrError, most: 4, get: func(w *xdr.Writer, f *facts) { w.Uint32(uint32(f.failure)) }},
	{number: wire.Fattr4Aclsupport, most: 4, get: func(w *xdr.Writer, f *facts) { w.Uint32(0) }},
	{number: wire.Fattr4Cansettime, need: needInfo, most: 4, get: func(w *xdr.Writer, f *facts) { w.Bool(f.info.CanSetTime) }},
	{number: wire.Fattr4CaseInsensitive, need: needInfo, most: 4, get: func(w *xdr.Writer, f *facts) { w.Bool(f.info.CaseInsensitive) }},
	{number: wire.Fattr4CasePreserving, most: 4, get: func(w *xdr.Writer, f *facts) { w.Bool(true) }},
	{number: wire.Fattr4ChownRestricted, most: 4, get: func(w *xdr.Writer, f *facts) { w.Bool(true) }},
	{number: wire.Fattr4Filehandle, most: wire.NFSFH4MaxSize, get: func(w *xdr.Writer, f *facts) { w.Opaque(f.k.Seal(&f.object)) }, skip: skipOpaque},
	{number: wire.Fattr4FileID, need: needAttr, most: 8, get: func(w *xdr.Writer, f *facts) { w.Uint64(f.attr.FileID) }},
	{number: wire.Fattr4FilesAvail, need: needUsage, most: 8, get: func(w *xdr.Writer, f *facts) { w.Uint64(f.usage.AvailableFiles) }},
	{number: wire.Fattr4FilesFree, need: needUsage, most: 8, get: func(w *xdr.Writer, f *facts) { w.Uint64(f.usage.FreeFiles) }},
	{number: wire.Fattr4FilesTotal, need: needUsage, most: 8, get: func(w *xdr.Writer, f *facts) { w.Uint64(f.usage.TotalFiles) }},
	{number: wire.Fattr4FsLocations, most: 2*mostPath + 12, get: putLocations, skip: skipLocations},
	{number: wire.Fattr4Homogeneous, most: 4, get: func(w *xdr.Writer, f *facts) { w.Bool(true) }},
	{number: wire.Fattr4Maxfilesize, need: needInfo, most: 8, get: func(w *xdr.Writer, f *facts) { w.Uint64(f.info.MaxFileSize) }},
	{number: wire.Fattr4Maxlink, need: needInfo, most: 4, get: func(w *xdr.Writer, f *facts) { w.Uint32(f.info.MaxLink) }},
	{number: wire.Fattr4Maxname, need: needInfo, most: 4, get: func(w *xdr.Writer, f *facts) { w.Uint32(min(f.info.MaxName, maxName)) }},
	{number: wire.Fattr4Maxread, most: 8, get: func(w *xdr.Writer, f *facts) { w.Uint64(nfs.MaxTransfer) }},
	{number: wire.Fattr4Maxwrite, most: 8, get: func(w *xdr.Writer, f *facts) { w.Uint64(nfs.MaxTransfer) }},
	{number: wire.Fattr4Mode, need: needAttr, most: 4, get: func(w *xdr.Writer, f *facts) { w.Uint32(f.attr.Mode & 0o7777) }, set: setMode},
	{number: wire.Fattr4NoTrunc, most: 4, get: func(w *xdr.Writer, f *facts) { w.Bool(true) }},
	{number: wire.Fattr4Numlinks, need: needAttr, most: 4, get: func(w *xdr.Writer, f *facts) { w.Uint32(f.attr.Nlink) }},
	{number: wire.Fattr4Owner, need: needAttr | needOwner, most: mostName, get: func(w *xdr.Writer, f *facts) { putIdentity(w, f.owner, f.attr.UID) }, set: setOwner, skip: skipOpaque},
	{number: wire.Fattr4OwnerGroup, need: needAttr | needGroup, most: mostName, get: func(w *xdr.Writer, f *facts) { putIdentity(w, f.group, f.attr.GID) }, set: setGroup, skip: skipOpaque},
	{number: wire.Fattr4Rawdev, need: needAttr, most: 8, get: func(w *xdr.Writer, f *facts) { w.Uint32(f.attr.Major); w.Uint32(f.attr.Minor) }},
	{number: wire.Fattr4SpaceAvail, need: needUsage, most: 8, get: func(w *xdr.Writer, f *facts) { w.Uint64(f.usage.AvailableBytes) }},
	{number: wire.Fattr4SpaceFree, need: needUsage, most: 8, get: func(w *xdr.Writer, f *facts) { w.Uint64(f.usage.FreeBytes) }},
	{number: wire.Fattr4SpaceTotal, need: needUsage, most: 8, get: func(w *xdr.Writer, f *facts) { w.Uint64(f.usage.TotalBytes) }},
	{number: wire.Fattr4SpaceUsed, need: needAttr, most: 8, get: func(w *xdr.Writer, f *facts) { w.Uint64(f.attr.Used) }},
	{number: wire.Fattr4TimeAccess, need: needAttr, most: 12, get: func(w *xdr.Writer, f *facts) { putTime(w, f.attr.Atime) }},
	{number: wire.Fattr4TimeAccessSet, most: 16, set: setAtime},
	{number: wire.Fattr4TimeCreate, need: needAttr | needBirth, most: 12, get: func(w *xdr.Writer, f *facts) { putTime(w, f.attr.Birth) }, set: leaveBirth},
	{number: wire.Fattr4TimeDelta, need: needInfo, most: 12, get: func(w *xdr.Writer, f *facts) { putTime(w, f.info.TimeGranularity) }},
	{number: wire.Fattr4TimeMetadata, need: needAttr, most: 12, get: func(w *xdr.Writer, f *facts) { putTime(w, f.attr.Ctime) }},
	{number: wire.Fattr4TimeModify, need: needAttr, most: 12, get: func(w *xdr.Writer, f *facts) { putTime(w, f.attr.Mtime) }},
	{number: wire.Fattr4TimeModifySet, most: 16, set: setMtime},
	{number: wire.Fattr4MountedOnFileID, need: needCovered, most: 8, get: func(w *xdr.Writer, f *facts) { w.Uint64(f.covered) }},
	{number: wire.Fattr4SuppattrExclcreat, since: 1, most: wire.Bitmap4MaxSize, get: func(w *xdr.Writer, f *facts) { set := supported[f.k.Minor].And(&exclusive); set.Encode(w) }, skip: skipBitmap},
	{number: wire.Fattr4ChangeAttrType, since: 2, most: 4, get: func(w *xdr.Writer, f *facts) { w.Uint32(uint32(f.changeType())) }},
	{number: wire.Fattr4ModeUmask, since: 2, most: 8, set: setModeUmask},
	{number: wire.Fattr4XattrSupport, since: 2, most: 4, get: putXattrSupport},
	// RFC 9754 defines open_arguments for minor version 2, but clients of minor version 1 ask
	// for it too, so both minor versions have it here.
	{number: wire.Fattr4OpenArguments, since: 1, most: wire.OpenArguments4MaxSize, get: func(w *xdr.Writer, f *facts) { openArguments.Encode(w) }, skip: skipOpenArguments},
}

// openArguments lists the arguments that OPEN understands (RFC 9754 §3). Of the wishes
// about delegations, OPEN understands only the wish for no delegation.
var openArguments = wire.OpenArguments4{
	ShareAccess:     wire.Bits(wire.OpenArgsShareAccessRead, wire.OpenArgsShareAccessWrite, wire.OpenArgsShareAccessBoth),
	ShareDeny:       wire.Bits(wire.OpenArgsShareDenyNone, wire.OpenArgsShareDenyRead, wire.OpenArgsShareDenyWrite, wire.OpenArgsShareDenyBoth),
	ShareAccessWant: wire.Bits(wire.OpenArgsShareAccessWantNoDeleg),
	OpenClaim:       wire.Bits(uint32(wire.ClaimNull), uint32(wire.ClaimPrevious), uint32(wire.ClaimFH)),
	CreateMode:      wire.Bits(uint32(wire.Unchecked4), uint32(wire.Guarded4), uint32(wire.Exclusive4), uint32(wire.Exclusive41)),
}

func putTime(w *xdr.Writer, t vfs.Time) {
	w.Int64(t.Sec)
	w.Uint32(t.Nsec)
}

// changeType returns change_attr_type (RFC 7862 §12.2.3): what two values of the change attribute tell a
// client.
func (f *facts) changeType() wire.ChangeAttrType4 {
	if f.object.Export.ID == 0 {
		// The change attribute of the pseudo file system is a digest of the configuration, so a
		// higher value does not mean a later one.
		return wire.NFS4ChangeTypeIsUndefined
	}
	// Change comes from the ctime. If a change of the file does not raise the ctime, the file system raises
	// Change in memory, and this increment is lost when the daemon ends or crashes. So the server promises
	// only this type, with which a client treats a lower Change as a new state, too. From Linux 6.13 on,
	// the usual file systems raise the ctime whenever it has been read, so Change needs no increment there.
	return wire.NFS4ChangeTypeIsTimeMetadata
}

// putLocations writes fs_locations (RFC 8881 §11.16). The only location is the export's own path
// on this server. If the path takes more than mostPath bytes, the list of locations is empty.
func putLocations(w *xdr.Writer, f *facts) {
	path := f.k.Program.pathOf(f.object.Export)
	if sizeOfPath(path) > mostPath {
		w.Uint32(0)
		w.Uint32(0)
		return
	}
	putPath(w, path)
	w.Uint32(1)
	w.Uint32(1)
	w.Uint32(0) // no server name: the location is this server
	putPath(w, path)
}

// sizeOfPath returns the length of a path as putPath writes it, in bytes.
func sizeOfPath(path string) (n int) {
	n = 4
	for name := range strings.SplitSeq(path[1:], "/") {
		if name != "" {
			n += 4 + len(name) + xdr.Pad(len(name))
		}
	}
	return n
}

// putPath writes a clean absolute path as pathname4.
func putPath(w *xdr.Writer, path string) {
	w.Uint32(0)
	at, n := w.Len()-4, uint32(0)
	for name := range strings.SplitSeq(path[1:], "/") {
		if name != "" {
			w.String(name)
			n++
		}
	}
	w.PatchUint32(at, n)
}

// A need is a set of bits: the facts that must be looked up before an attribute can be encoded.
type need uint8

// The facts are: the object's attributes; the fixed properties of its file system; the space and files
// used in it; the file ID of the object that an export's root covers; the birth time; and the names of the
// owner and the group. The last three have an effect only together with needAttr: see facts.look.
const (
	needAttr need = 1 << iota
	needInfo
	needUsage
	needCovered
	needBirth
	needOwner
	needGroup
)

// An attribute is one row of attributeTable (RFC 8881 §5.8, RFC 7530 §5.8, RFC 7862 §12).
type attribute struct {
	number uint32
	// since is the first minor version that has the attribute.
	since uint32
	need  need
	// most is the length of the longest value, in bytes. If skip is nil, all values are that
	// long. Otherwise skip steps over one value.
	most int
	skip func(d *xdr.Decoder)
	// get encodes the value. If it is nil, the attribute can only be set.
	get func(w *xdr.Writer, f *facts)
	// set decodes a value from a client. If it is nil, the attribute cannot be set.
	set func(d *xdr.Decoder, a *assignment)
}

// attributes holds the served attributes, indexed by number.
var attributes [96]*attribute

// Sets of attributes.
var (
	// supported holds the attributes of each minor version, readable the attributes that a
	// client can get, and settable the attributes that it can set.
	supported          [3]wire.Bitmap4
	readable, settable wire.Bitmap4
	// ofObject holds the attributes that differ between the entries of a directory and are
	// not known from the entry's name.
	ofObject wire.Bitmap4
)

func init() {
	for i := range attributeTable {
		a := &attributeTable[i]
		attributes[a.number] = a
		for minor := a.since; minor < uint32(len(supported)); minor++ {
			supported[minor].Set(a.number)
		}
		if a.get != nil {
			readable.Set(a.number)
		}
		if a.set != nil {
			settable.Set(a.number)
		}
		if a.need&needAttr != 0 || a.number == wire.Fattr4Filehandle {
			ofObject.Set(a.number)
		}
	}
}

// bitmapWords is the number of words in a bitmap of attributes.
const bitmapWords = 3

// row returns the attribute of the lowest bit of w, which is word i of a bitmap of supported
// attributes. w is not 0.
func row(i int, w uint32) *attribute { return attributes[32*i+bits.TrailingZeros32(w)] }

// answer returns those of the asked attributes that the minor version has, and the set of facts
// that must be looked up for them. The status is NFS4ERR_INVAL if one of the attributes can only be
// set (RFC 8881 §5.5).
func (k *Compound) answer(asked *wire.Bitmap4) (set wire.Bitmap4, needs need, s Status) {
	set = asked.And(&supported[k.Minor])
	if unreadable := set.Without(&readable); !unreadable.IsEmpty() {
		return set, 0, wire.NFS4ErrInvalid
	}
	for i := range bitmapWords {
		for m := set.Word(i); m != 0; m &= m - 1 {
			needs |= row(i, m).need
		}
	}
	return set, needs, wire.NFS4OK
}

// writeValues writes the values of a set of attributes.
func (f *facts) writeValues(w *xdr.Writer, set *wire.Bitmap4) {
	for i := range bitmapWords {
		for m := set.Word(i); m != 0; m &= m - 1 {
			row(i, m).get(w, f)
		}
	}
}

// sendsNames reports whether the caller gets users and groups by name: with RPCSEC_GSS, under which the
// caller itself is known by name, or if the configuration says so. Other callers get decimal numbers (RFC
// 7530 §5.9).
func (k *Compound) sendsNames() bool {
	p := k.Program
	return p.identity != nil && (p.sendNames || k.Call.Cred.Flavor == rpc.AuthGSS)
}

// names looks up the names of the owner and the group of f.attr, if n contains needOwner or
// needGroup and the caller gets names.
func (f *facts) names(n need) Status {
	k := f.k
	f.owner, f.group = f.owner[:0], f.group[:0]
	if n&(needOwner|needGroup) == 0 || !k.sendsNames() {
		return wire.NFS4OK
	}
	client := k.Call.Conn.Peer.Addr()
	var err error
	if n&needOwner != 0 {
		f.owner, err = k.Program.identity.Append(f.owner, client, identity.User, f.attr.UID, k.Op.Try)
	}
	if n&needGroup != 0 && err == nil {
		f.group, err = k.Program.identity.Append(f.group, client, identity.Group, f.attr.GID, k.Op.Try)
	}
	if err != nil {
		return k.Block(k.Program.identity)
	}
	return wire.NFS4OK
}

// putIdentity writes owner or owner_group (RFC 8881 §5.9): the name, or the decimal digits
// of the number if the name is empty or takes more than mostName bytes.
func putIdentity(w *xdr.Writer, name []byte, id uint32) {
	if len(name) > 0 && 4+len(name) <= mostName {
		w.Opaque(name)
		return
	}
	var b [10]byte
	w.Opaque(strconv.AppendUint(b[:0], uint64(id), 10))
}

// number returns the numeric ID of the owner or group that a client names.
func (a *assignment) number(kind identity.Kind, name []byte) uint32 {
	if len(name) == 0 { // an empty name is invalid; Linux's server answers the same
		a.fail(wire.NFS4ErrInvalid)
		return 0
	}
	m := a.k.Program.identity
	if m == nil {
		id, ok := identity.ParseNumber(name)
		if !ok {
			a.fail(wire.NFS4ErrBadOwner)
		}
		return id
	}
	id, err := m.Number(a.k.Call.Conn.Peer.Addr(), kind, name, a.k.Op.Try)
	switch {
	case errors.Is(err, vfs.ErrWouldBlock):
		a.fail(a.k.Block(m))
	case errors.Is(err, vfs.ErrDelay):
		a.fail(wire.NFS4ErrDelay)
	case err != nil:
		a.fail(wire.NFS4ErrBadOwner)
	}
	return id
}
