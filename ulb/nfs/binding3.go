package nfs

import (
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/mount3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// Binding3 is the binding of NFS version 3 (RFC 8267 §4). The eligible arguments are the
// data of WRITE and the text of SYMLINK. The eligible results are the data of READ and the
// text of READLINK. Each call has at most one eligible item. No other item is placed
// directly.
var Binding3 = rpc.Binding{Procedures: []rpc.Procedure{
	nfs3wire.ProcNull: {Name: "NULL"},
	nfs3wire.ProcGetattr: {
		Name: "GETATTR", Walk: handle, MaxArgs: nfs3wire.Getattr3ArgsMaxSize, MaxResults: nfs3wire.Getattr3ResMaxSize,
	},
	nfs3wire.ProcSetattr: {
		Name: "SETATTR", Walk: handle, Once: true,
		MaxArgs: nfs3wire.Setattr3ArgsMaxSize, MaxResults: nfs3wire.Setattr3ResMaxSize,
	},
	nfs3wire.ProcLookup: {
		Name: "LOOKUP", Walk: handle, MaxArgs: nfs3wire.FileHandle3MaxSize + maxNames, MaxResults: nfs3wire.Lookup3ResMaxSize,
	},
	nfs3wire.ProcAccess: {
		Name: "ACCESS", Walk: handle, MaxArgs: nfs3wire.Access3ArgsMaxSize, MaxResults: nfs3wire.Access3ResMaxSize,
	},
	nfs3wire.ProcReadlink: {
		Name: "READLINK", MaxArgs: nfs3wire.Readlink3ArgsMaxSize, MaxResults: nfs3wire.Readlink3ResMaxReducedSize,
		Walk: func(args *xdr.Decoder, s *rpc.Shape) {
			handle(args, s)
			s.Payload = MaxPath
		},
	},
	nfs3wire.ProcRead: {
		Name: "READ", MaxArgs: nfs3wire.Read3ArgsMaxSize, MaxResults: nfs3wire.Read3ResMaxReducedSize,
		Walk: func(args *xdr.Decoder, s *rpc.Shape) {
			handle(args, s)
			args.Uint64()
			s.Payload = int(min(args.Uint32(), MaxTransfer))
		},
	},
	nfs3wire.ProcWrite: {
		Name: "WRITE", Once: true,
		MaxArgs: nfs3wire.Write3ArgsMaxReducedSize + MaxTransfer, MaxResults: nfs3wire.Write3ResMaxSize,
		Walk: func(args *xdr.Decoder, s *rpc.Shape) {
			handle(args, s)
			args.Skip(8 + 4 + 4)
			s.Item(args)
		},
	},
	nfs3wire.ProcCreate: {
		Name: "CREATE", Walk: handle, Once: true,
		MaxArgs:    nfs3wire.FileHandle3MaxSize + maxNames + nfs3wire.CreateHow3MaxSize,
		MaxResults: nfs3wire.Create3ResMaxSize,
	},
	nfs3wire.ProcMkdir: {
		Name: "MKDIR", Walk: handle, Once: true,
		MaxArgs:    nfs3wire.FileHandle3MaxSize + maxNames + nfs3wire.Sattr3MaxSize,
		MaxResults: nfs3wire.Mkdir3ResMaxSize,
	},
	nfs3wire.ProcSymlink: {
		Name: "SYMLINK", Once: true,
		MaxArgs:    nfs3wire.FileHandle3MaxSize + maxNames + nfs3wire.Sattr3MaxSize + maxNames,
		MaxResults: nfs3wire.Symlink3ResMaxSize,
		Walk: func(args *xdr.Decoder, s *rpc.Shape) {
			var where nfs3wire.DirOpArgs3
			var attr nfs3wire.Sattr3
			where.Decode(args)
			attr.Decode(args)
			s.Object = where.Dir.Data
			s.Item(args)
		},
	},
	nfs3wire.ProcMknod: {
		Name: "MKNOD", Walk: handle, Once: true,
		MaxArgs:    nfs3wire.FileHandle3MaxSize + maxNames + nfs3wire.MknodData3MaxSize,
		MaxResults: nfs3wire.Mknod3ResMaxSize,
	},
	nfs3wire.ProcRemove: {
		Name: "REMOVE", Walk: handle, Once: true,
		MaxArgs: nfs3wire.FileHandle3MaxSize + maxNames, MaxResults: nfs3wire.Remove3ResMaxSize,
	},
	nfs3wire.ProcRmdir: {
		Name: "RMDIR", Walk: handle, Once: true,
		MaxArgs: nfs3wire.FileHandle3MaxSize + maxNames, MaxResults: nfs3wire.Rmdir3ResMaxSize,
	},
	nfs3wire.ProcRename: {
		Name: "RENAME", Walk: handle, Once: true,
		MaxArgs: 2 * (nfs3wire.FileHandle3MaxSize + maxNames), MaxResults: nfs3wire.Rename3ResMaxSize,
	},
	nfs3wire.ProcLink: {
		Name: "LINK", Walk: handle, Once: true,
		MaxArgs: 2*nfs3wire.FileHandle3MaxSize + maxNames, MaxResults: nfs3wire.Link3ResMaxSize,
	},
	nfs3wire.ProcReaddir: {
		Name: "READDIR", MaxArgs: nfs3wire.Readdir3ArgsMaxSize,
		Walk: func(args *xdr.Decoder, s *rpc.Shape) {
			handle(args, s)
			args.Skip(8 + nfs3wire.CookieVerfSize)
			s.Words = directoryReply(args.Uint32())
		},
	},
	nfs3wire.ProcReaddirPlus: {
		Name: "READDIRPLUS", MaxArgs: nfs3wire.ReaddirPlus3ArgsMaxSize,
		Walk: func(args *xdr.Decoder, s *rpc.Shape) {
			handle(args, s)
			args.Skip(8 + nfs3wire.CookieVerfSize + 4)
			s.Words = directoryReply(args.Uint32())
		},
	},
	nfs3wire.ProcFsstat: {
		Name: "FSSTAT", Walk: handle, MaxArgs: nfs3wire.Fsstat3ArgsMaxSize, MaxResults: nfs3wire.Fsstat3ResMaxSize,
	},
	nfs3wire.ProcFsinfo: {
		Name: "FSINFO", Walk: handle, MaxArgs: nfs3wire.Fsinfo3ArgsMaxSize, MaxResults: nfs3wire.Fsinfo3ResMaxSize,
	},
	nfs3wire.ProcPathconf: {
		Name: "PATHCONF", Walk: handle, MaxArgs: nfs3wire.Pathconf3ArgsMaxSize, MaxResults: nfs3wire.Pathconf3ResMaxSize,
	},
	nfs3wire.ProcCommit: {
		Name: "COMMIT", Walk: handle, MaxArgs: nfs3wire.Commit3ArgsMaxSize, MaxResults: nfs3wire.Commit3ResMaxSize,
	},
}}

// MaxMountReply is the size of the largest reply to DUMP and EXPORT, in bytes. The protocol does
// not limit the length of their lists, so the server leaves out the entries that do not fit.
const MaxMountReply = 256 << 10

// maxFlavors is the largest number of security flavors of an export.
const maxFlavors = 4

// BindingMount3 is the binding of MOUNT version 3 (RFC 8267 §4.5): nothing is
// eligible.
var BindingMount3 = rpc.Binding{Procedures: []rpc.Procedure{
	mount3wire.ProcNull: {Name: "NULL"},
	mount3wire.ProcMnt: {
		Name: "MNT", MaxArgs: mount3wire.DirPathMaxSize, MaxResults: 4 + nfs3wire.FileHandle3MaxSize + 4 + maxFlavors*4,
		Walk: func(args *xdr.Decoder, s *rpc.Shape) { s.Object = args.Opaque(mount3wire.DirPathMaxSize) },
	},
	mount3wire.ProcDump:    {Name: "DUMP", MaxResults: MaxMountReply},
	mount3wire.ProcUmnt:    {Name: "UMNT", MaxArgs: mount3wire.DirPathMaxSize},
	mount3wire.ProcUmntall: {Name: "UMNTALL"},
	mount3wire.ProcExport:  {Name: "EXPORT", MaxResults: MaxMountReply},
}}

// directoryReply returns the largest size, in bytes, of the reply to a READDIR or
// READDIRPLUS in which the client allows count bytes.
func directoryReply(count uint32) int {
	return 4 + nfs3wire.PostOpAttrMaxSize + nfs3wire.CookieVerfSize + int(min(count, MaxDirectory)) + 8
}

// handle decodes the file handle that begins the arguments of every procedure except NULL. It
// stores the handle in s.Object, the object of the call.
func handle(args *xdr.Decoder, s *rpc.Shape) { s.Object = args.Opaque(nfs3wire.FileHandleSize) }
