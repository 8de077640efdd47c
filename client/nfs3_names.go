package client

import (
	"context"
	"slices"
	"strings"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// entry returns the arguments for a name in a directory.
func entry(dir Handle, name string) nfs3wire.DirOpArgs3 {
	return nfs3wire.DirOpArgs3{Dir: wireHandle(dir), Name: nfs3wire.Filename3(name)}
}

// Lookup finds a name in a directory (RFC 1813 §3.3.3). attr is nil if the server
// gives none.
func (n NFS3) Lookup(ctx context.Context, dir Handle, name string) (file Handle, attr *nfs3wire.Fattr3, err error) {
	args := nfs3wire.Lookup3Args{What: entry(dir, name)}
	var res nfs3wire.Lookup3Res
	err = n.do(ctx, n.exchange(nfs3wire.ProcLookup, &args), &res, func() error {
		file, attr = slices.Clone(res.ResOK.Object.Data), attributes(&res.ResOK.ObjAttributes)
		return nil
	})
	return file, attr, err
}

// Walk looks up a path below dir, name by name.
func (n NFS3) Walk(ctx context.Context, dir Handle, path string) (file Handle, err error) {
	for name := range strings.SplitSeq(path, "/") {
		if name == "" || name == "." {
			continue
		}
		if dir, _, err = n.Lookup(ctx, dir, name); err != nil {
			return nil, err
		}
	}
	return dir, nil
}

// Create makes a file (RFC 1813 §3.3.8). If the server gives no handle, Create looks
// the name up. attr is nil if the server gives none.
func (n NFS3) Create(ctx context.Context, dir Handle, name string, how nfs3wire.CreateHow3) (file Handle, attr *nfs3wire.Fattr3, err error) {
	args := nfs3wire.Create3Args{Where: entry(dir, name), How: how}
	var res nfs3wire.Create3Res
	err = n.do(ctx, n.exchange(nfs3wire.ProcCreate, &args), &res, func() error {
		file, attr = given(&res.ResOK.Obj, &res.ResOK.ObjAttributes)
		return nil
	})
	if err == nil && file == nil {
		return n.Lookup(ctx, dir, name)
	}
	return file, attr, err
}

// Mkdir makes a directory (RFC 1813 §3.3.9). If the server gives no handle, Mkdir
// looks the name up.
func (n NFS3) Mkdir(ctx context.Context, dir Handle, name string, attr nfs3wire.Sattr3) (made Handle, err error) {
	args := nfs3wire.Mkdir3Args{Where: entry(dir, name), Attributes: attr}
	var res nfs3wire.Mkdir3Res
	err = n.do(ctx, n.exchange(nfs3wire.ProcMkdir, &args), &res, func() error {
		made, _ = given(&res.ResOK.Obj, &res.ResOK.ObjAttributes)
		return nil
	})
	if err == nil && made == nil {
		made, _, err = n.Lookup(ctx, dir, name)
	}
	return made, err
}

// Symlink makes a symbolic link (RFC 1813 §3.3.10).
func (n NFS3) Symlink(ctx context.Context, dir Handle, name, text string) error {
	args := nfs3wire.Symlink3Args{Where: entry(dir, name), Symlink: nfs3wire.SymlinkData3{SymlinkData: xdr.Eligible{Data: []byte(text)}}}
	var res nfs3wire.Symlink3Res
	return n.do(ctx, n.exchange(nfs3wire.ProcSymlink, &args), &res, nil)
}

// Remove removes a file's name (RFC 1813 §3.3.12).
func (n NFS3) Remove(ctx context.Context, dir Handle, name string) error {
	args := nfs3wire.Remove3Args{Object: entry(dir, name)}
	var res nfs3wire.Remove3Res
	return n.do(ctx, n.exchange(nfs3wire.ProcRemove, &args), &res, nil)
}

// Rmdir removes an empty directory (RFC 1813 §3.3.13).
func (n NFS3) Rmdir(ctx context.Context, dir Handle, name string) error {
	args := nfs3wire.Rmdir3Args{Object: entry(dir, name)}
	var res nfs3wire.Rmdir3Res
	return n.do(ctx, n.exchange(nfs3wire.ProcRmdir, &args), &res, nil)
}

// Rename gives a file another name (RFC 1813 §3.3.14). It replaces a file that already has this name.
func (n NFS3) Rename(ctx context.Context, fromDir Handle, from string, toDir Handle, to string) error {
	args := nfs3wire.Rename3Args{From: entry(fromDir, from), To: entry(toDir, to)}
	var res nfs3wire.Rename3Res
	return n.do(ctx, n.exchange(nfs3wire.ProcRename, &args), &res, nil)
}

// Link gives a file one more name (RFC 1813 §3.3.15).
func (n NFS3) Link(ctx context.Context, file, dir Handle, name string) error {
	args := nfs3wire.Link3Args{FileHandle: wireHandle(file), Link: entry(dir, name)}
	var res nfs3wire.Link3Res
	return n.do(ctx, n.exchange(nfs3wire.ProcLink, &args), &res, nil)
}
