package client

import (
	"context"
	"iter"
	"slices"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// Mkdir makes a directory (RFC 8881 §18.4).
func (n NFS4) Mkdir(ctx context.Context, dir Handle, name string, mode uint32) (made Handle, err error) {
	args := nfs4wire.Create4Args{
		Objtype: nfs4wire.Createtype4{Type: nfs4wire.NF4Dir}, Objname: nfs4wire.UTF8String(name), Createattrs: ModeAttribute(mode),
	}
	var res nfs4wire.Create4Res
	var fh nfs4wire.GetFH4Res
	err = n.do(ctx, &Compound{Cache: true, MaxArgs: nameArgs(name), Ops: []Op{
		put(dir), {nfs4wire.OpCreate, &args, &res}, {Number: nfs4wire.OpGetFH, Res: &fh},
	}}, func() error {
		made = slices.Clone(Handle(fh.ResOK.Object))
		return nil
	})
	return made, err
}

// Remove removes a name (RFC 8881 §18.25). A directory must be empty.
func (n NFS4) Remove(ctx context.Context, dir Handle, name string) error {
	args := nfs4wire.Remove4Args{Target: nfs4wire.UTF8String(name)}
	var res nfs4wire.Remove4Res
	return n.do(ctx, &Compound{Cache: true, MaxArgs: nameArgs(name), Ops: []Op{put(dir), {nfs4wire.OpRemove, &args, &res}}}, nil)
}

// Rename gives a file another name (RFC 8881 §18.26). It replaces a file that already has this name.
func (n NFS4) Rename(ctx context.Context, fromDir Handle, from string, toDir Handle, to string) error {
	args := nfs4wire.Rename4Args{Oldname: nfs4wire.UTF8String(from), Newname: nfs4wire.UTF8String(to)}
	var res nfs4wire.Rename4Res
	return n.do(ctx, &Compound{Cache: true, MaxArgs: nameArgs(from, to), Ops: []Op{
		put(fromDir), {Number: nfs4wire.OpSaveFH}, put(toDir), {nfs4wire.OpRename, &args, &res},
	}}, nil)
}

// A DirEntry4 is one name in a directory.
type DirEntry4 struct {
	Name       string
	Cookie     uint64
	Attributes Attributes4
}

// Readdir lists a directory (RFC 8881 §18.23). The argument wanted is the set of attributes to
// ask for; each entry has those that the server supports. An error ends the listing.
func (n NFS4) Readdir(ctx context.Context, dir Handle, wanted nfs4wire.Bitmap4) iter.Seq2[DirEntry4, error] {
	return list(func(l *listing[DirEntry4]) error {
		args := nfs4wire.Readdir4Args{
			Cookie: l.cookie, Cookieverf: l.verf, Dircount: directoryReply, Maxcount: directoryReply, AttrRequest: wanted,
		}
		var res nfs4wire.Readdir4Res
		return n.do(ctx, &Compound{Ops: []Op{put(dir), {nfs4wire.OpReaddir, &args, &res}}}, func() error {
			l.verf, l.eof = res.ResOK.Cookieverf, res.ResOK.Reply.EOF
			var e nfs4wire.Entry4
			for res.ResOK.Reply.Entries.Next(&e) {
				entry := DirEntry4{Name: string(e.Name), Cookie: e.Cookie}
				if err := entry.Attributes.Take(&e.Attrs); err != nil {
					return err
				}
				l.entries = append(l.entries, entry)
				l.cookie = e.Cookie
			}
			return nil
		})
	})
}
