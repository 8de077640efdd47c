package nfs4

import (
	"encoding/binary"
	"math/bits"
	"strings"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// bitmapWords is the number of words in a bitmap of attributes.
const bitmapWords = 3

// bit returns the attribute number of the lowest bit of w, which is word i of a bitmap. w is
// not 0.
func bit(i int, w uint32) uint32 { return uint32(32*i + bits.TrailingZeros32(w)) }

// Longest encoded names and paths in attribute values, in bytes.
const (
	mostName = 4 + 512 // of an owner or a group: a name, '@', and a domain
	mostPath = 1024    // of a path among fs_locations
)

// attributeTable lists the supported attributes. An attribute that is not listed is not
// supported.
var attributeTable = []attribute{
	{number: wire.Fattr4SupportedAttrs, need: needAttr | needBirth, most: wire.Bitmap4MaxSize, get: func(w *xdr.Writer, f *facts) { set := f.served(); set.Encode(w) }, skip: skipBitmap},
	{number: wire.Fattr4Type, need: needAttr, most: 4, fill: func(b []byte, f *facts) { put32(b, uint32(wireType[f.attr.Type])) }},
	{number: wire.Fattr4FHExpireType, most: 4, fill: func(b []byte, f *facts) { put32(b, wire.FH4Persistent) }},
	{number: wire.Fattr4Change, need: needAttr, most: 8, fill: func(b []byte, f *facts) { put64(b, f.attr.Change) }},
	{number: wire.Fattr4Size, need: needAttr, most: 8, fill: func(b []byte, f *facts) { put64(b, f.attr.Size) }, set: setSize},
	{number: wire.Fattr4LinkSupport, need: needInfo, most: 4, fill: func(b []byte, f *facts) { putBool(b, f.info.HardLinks) }},
	{number: wire.Fattr4SymlinkSupport, need: needInfo, most: 4, fill: func(b []byte, f *facts) { putBool(b, f.info.Symlinks) }},
	{number: wire.Fattr4NamedAttr, most: 4, fill: func(b []byte, f *facts) { putBool(b, false) }},
	{number: wire.Fattr4FSID, need: needAttr, most: 16, fill: func(b []byte, f *facts) { put64(b, uint64(f.object.Export.ID)); put64(b[8:], f.attr.FSID) }},
	{number: wire.Fattr4UniqueHandles, most: 4, fill: func(b []byte, f *facts) { putBool(b, true) }},
	{number: wire.Fattr4LeaseTime, most: 4, fill: func(b []byte, f *facts) { put32(b, uint32(f.k.Program.state.Lease().Seconds())) }},
	{number: wire.Fattr4RdattrError, most: 4, fill: func(b []byte, f *facts) { put32(b, uint32(f.failure)) }},
	{number: wire.Fattr4Aclsupport, most: 4, fill: func(b []byte, f *facts) { put32(b, 0) }},
	{number: wire.Fattr4Cansettime, need: needInfo, most: 4, fill: func(b []byte, f *facts) { putBool(b, f.info.CanSetTime) }},
	{number: wire.Fattr4CaseInsensitive, need: needInfo, most: 4, fill: func(b []byte, f *facts) { putBool(b, f.info.CaseInsensitive) }},
	{number: wire.Fattr4CasePreserving, need: needInfo, most: 4, fill: func(b []byte, f *facts) { putBool(b, f.info.CasePreserving) }},
	{number: wire.Fattr4ChownRestricted, need: needInfo, most: 4, fill: func(b []byte, f *facts) { putBool(b, f.info.ChownRestricted) }},
	{number: wire.Fattr4Filehandle, most: wire.NFSFH4MaxSize, get: func(w *xdr.Writer, f *facts) { w.Opaque(f.k.Seal(&f.object)) }, skip: skipOpaque},
	{number: wire.Fattr4FileID, need: needAttr, most: 8, fill: func(b []byte, f *facts) { put64(b, f.attr.FileID) }},
	{number: wire.Fattr4FilesAvail, need: needUsage, most: 8, fill: func(b []byte, f *facts) { put64(b, f.usage.AvailableFiles) }},
	{number: wire.Fattr4FilesFree, need: needUsage, most: 8, fill: func(b []byte, f *facts) { put64(b, f.usage.FreeFiles) }},
	{number: wire.Fattr4FilesTotal, need: needUsage, most: 8, fill: func(b []byte, f *facts) { put64(b, f.usage.TotalFiles) }},
	{number: wire.Fattr4FsLocations, most: 2*mostPath + 12, get: putLocations, skip: skipLocations},
	{number: wire.Fattr4Homogeneous, need: needInfo, most: 4, fill: func(b []byte, f *facts) { putBool(b, f.info.Homogeneous) }},
	{number: wire.Fattr4Maxfilesize, need: needInfo, most: 8, fill: func(b []byte, f *facts) { put64(b, f.info.MaxFileSize) }},
	{number: wire.Fattr4Maxlink, need: needInfo, most: 4, fill: func(b []byte, f *facts) { put32(b, f.info.MaxLink) }},
	{number: wire.Fattr4Maxname, need: needInfo, most: 4, fill: func(b []byte, f *facts) { put32(b, min(f.info.MaxName, maxName)) }},
	{number: wire.Fattr4Maxread, most: 8, fill: func(b []byte, f *facts) { put64(b, nfs.MaxTransfer) }},
	{number: wire.Fattr4Maxwrite, most: 8, fill: func(b []byte, f *facts) { put64(b, nfs.MaxTransfer) }},
	{number: wire.Fattr4Mode, need: needAttr, most: 4, fill: func(b []byte, f *facts) { put32(b, f.attr.Mode&0o7777) }, set: setMode},
	{number: wire.Fattr4NoTrunc, need: needInfo, most: 4, fill: func(b []byte, f *facts) { putBool(b, f.info.NoTruncate) }},
	{number: wire.Fattr4Numlinks, need: needAttr, most: 4, fill: func(b []byte, f *facts) { put32(b, f.attr.Nlink) }},
	{number: wire.Fattr4Owner, need: needAttr | needOwner, most: mostName, get: func(w *xdr.Writer, f *facts) { putIdentity(w, f.owner, f.attr.UID) }, set: setOwner, skip: skipOpaque},
	{number: wire.Fattr4OwnerGroup, need: needAttr | needGroup, most: mostName, get: func(w *xdr.Writer, f *facts) { putIdentity(w, f.group, f.attr.GID) }, set: setGroup, skip: skipOpaque},
	{number: wire.Fattr4Rawdev, need: needAttr, most: 8, fill: func(b []byte, f *facts) { put32(b, f.attr.Major); put32(b[4:], f.attr.Minor) }},
	{number: wire.Fattr4SpaceAvail, need: needUsage, most: 8, fill: func(b []byte, f *facts) { put64(b, f.usage.AvailableBytes) }},
	{number: wire.Fattr4SpaceFree, need: needUsage, most: 8, fill: func(b []byte, f *facts) { put64(b, f.usage.FreeBytes) }},
	{number: wire.Fattr4SpaceTotal, need: needUsage, most: 8, fill: func(b []byte, f *facts) { put64(b, f.usage.TotalBytes) }},
	{number: wire.Fattr4SpaceUsed, need: needAttr, most: 8, fill: func(b []byte, f *facts) { put64(b, f.attr.Used) }},
	{number: wire.Fattr4TimeAccess, need: needAttr, most: 12, fill: func(b []byte, f *facts) { putTime(b, f.attr.Atime) }},
	{number: wire.Fattr4TimeAccessSet, most: 16, set: setAtime},
	{number: wire.Fattr4TimeCreate, need: needAttr | needBirth, most: 12, fill: func(b []byte, f *facts) { putTime(b, f.attr.Birth) }, set: leaveBirth},
	{number: wire.Fattr4TimeDelta, need: needInfo, most: 12, fill: func(b []byte, f *facts) { putTime(b, f.info.TimeGranularity) }},
	{number: wire.Fattr4TimeMetadata, need: needAttr, most: 12, fill: func(b []byte, f *facts) { putTime(b, f.attr.Ctime) }},
	{number: wire.Fattr4TimeModify, need: needAttr, most: 12, fill: func(b []byte, f *facts) { putTime(b, f.attr.Mtime) }},
	{number: wire.Fattr4TimeModifySet, most: 16, set: setMtime},
	{number: wire.Fattr4MountedOnFileID, need: needCovered, most: 8, fill: func(b []byte, f *facts) { put64(b, f.covered) }},
	{number: wire.Fattr4SuppattrExclcreat, since: 1, most: wire.Bitmap4MaxSize, get: func(w *xdr.Writer, f *facts) { set := supported[f.k.Minor].And(&exclusive); set.Encode(w) }, skip: skipBitmap},
	{number: wire.Fattr4ChangeAttrType, since: 2, most: 4, fill: func(b []byte, f *facts) { put32(b, uint32(f.changeType())) }},
	{number: wire.Fattr4ModeUmask, since: 2, most: 8, set: setModeUmask},
	{number: wire.Fattr4XattrSupport, since: 2, most: 4, fill: func(b []byte, f *facts) { putBool(b, f.k.keepsXattrs()) }},
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

// keepsXattrs reports whether the current object's file system keeps extended attributes and
// the minor version serves the operations on them (RFC 8276 §8.2).
func (k *Compound) keepsXattrs() bool {
	if k.minor.find(wire.OpGetXattr) == nil {
		return false
	}
	_, ok := vfs.As[vfs.Xattrs](k.FS())
	return ok
}

var wireType = [...]wire.FType4{
	vfs.Regular:     wire.NF4Reg,
	vfs.Directory:   wire.NF4Dir,
	vfs.Symlink:     wire.NF4Lnk,
	vfs.BlockDevice: wire.NF4Blk,
	vfs.CharDevice:  wire.NF4Chr,
	vfs.Socket:      wire.NF4Sock,
	vfs.FIFO:        wire.NF4Fifo,
}

func put32(b []byte, v uint32) { binary.BigEndian.PutUint32(b, v) }

func put64(b []byte, v uint64) { binary.BigEndian.PutUint64(b, v) }

func putBool(b []byte, v bool) {
	if v {
		put32(b, 1)
	} else {
		put32(b, 0)
	}
}

func putTime(b []byte, t vfs.Time) {
	put64(b, uint64(t.Sec))
	put32(b[8:], t.Nsec)
}

// changeType returns the value of change_attr_type (RFC 7862 §12.2.3): what a client may
// conclude from two values of the change attribute.
func (f *facts) changeType() wire.ChangeAttrType4 {
	if f.object.Export.ID == 0 {
		// The change attribute of the pseudo file system is a digest of the configuration, so a
		// higher value does not mean a later one.
		return wire.NFS4ChangeTypeIsUndefined
	}
	// Change comes from the ctime. If a change of the file does not raise the ctime, the file
	// system raises Change in memory, and this increment is lost when the daemon ends. So the
	// server promises only this type, with which a client treats a lower Change as a new state,
	// too. Saving the increment at a clean stop would not help after a crash. From Linux 6.13 on,
	// the usual file systems give a change a new ctime whenever the old ctime has been read, so
	// Change needs no increment there.
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
