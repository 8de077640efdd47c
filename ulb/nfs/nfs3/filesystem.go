package nfs3

import (
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// fsstat is FSSTAT (RFC 1813 §3.3.18).
func (r *request) fsstat(args *wire.Fsstat3Args, res *wire.Fsstat3Res) error {
	u, err := r.fs().Usage(&r.op, r.handle)
	if err == nil {
		err = r.fs().GetAttr(&r.op, r.handle, &r.attr)
	}
	if res.Status = export.StatusOf(err); err == nil {
		res.ResOK = wire.Fsstat3ResOK{
			ObjAttributes: postOp(&r.attr),
			TotalBytes:    u.TotalBytes, FreeBytes: u.FreeBytes, AvailBytes: u.AvailableBytes,
			TotalFiles: u.TotalFiles, FreeFiles: u.FreeFiles, AvailFiles: u.AvailableFiles,
		}
	}
	return err
}

// info returns the properties of the file system, and gets the attributes of the call's file into r.attr.
func (r *request) info() (i vfs.Info, err error) {
	if i, err = r.fs().Info(&r.op, r.handle); err == nil {
		err = r.fs().GetAttr(&r.op, r.handle, &r.attr)
	}
	return i, err
}

// fsinfo is FSINFO (RFC 1813 §3.3.19).
func (r *request) fsinfo(args *wire.Fsinfo3Args, res *wire.Fsinfo3Res) error {
	i, err := r.info()
	if res.Status = export.StatusOf(err); err == nil {
		res.ResOK = wire.Fsinfo3ResOK{
			ObjAttributes: postOp(&r.attr),
			ReadMax:       nfs.MaxTransfer, ReadPref: nfs.MaxTransfer, ReadMult: 4096,
			WriteMax: nfs.MaxTransfer, WritePref: nfs.MaxTransfer, WriteMult: 4096,
			ReaddirPref: nfs.PreferredDirectory, MaxFileSize: i.MaxFileSize,
			TimeDelta: wireTime(i.TimeGranularity),
		}
		for _, p := range []struct {
			has bool
			bit uint32
		}{
			{i.HardLinks, wire.FSF3Link}, {i.Symlinks, wire.FSF3Symlink},
			{true, wire.FSF3Homogeneous}, {i.CanSetTime, wire.FSF3CanSetTime},
		} {
			if p.has {
				res.ResOK.Properties |= p.bit
			}
		}
	}
	return err
}

// pathconf is PATHCONF (RFC 1813 §3.3.20).
func (r *request) pathconf(args *wire.Pathconf3Args, res *wire.Pathconf3Res) error {
	i, err := r.info()
	if res.Status = export.StatusOf(err); err == nil {
		res.ResOK = wire.Pathconf3ResOK{
			ObjAttributes: postOp(&r.attr), LinkMax: i.MaxLink, NameMax: i.MaxName,
			NoTrunc: true, ChownRestricted: true, CaseInsensitive: i.CaseInsensitive, CasePreserving: true,
		}
	}
	return err
}
