package nfs

import (
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/mount3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// Binding3 is the binding of NFS version 3 (RFC 8267 §4): the data of WRITE and
// the text of SYMLINK among arguments, the data of READ and the text of READLINK
// among results, one each. Nothing else is ever placed directly.
var Binding3 = rpc.Binding{Procedures: []rpc.Procedure{
	nfs3wire.ProcNull: {Name: "NULL"},
	nfs3wire.ProcGetattr: {
		Name: "GETATTR", MaxArgs: nfs3wire.Getattr3ArgsMaxSize, MaxResults: nfs3wire.Getattr3ResMaxSize,
	},
	nfs3wire.ProcSetattr: {
		Name: "SETATTR", Once: true,
		MaxArgs: nfs3wire.Setattr3ArgsMaxSize, MaxResults: nfs3wire.Setattr3ResMaxSize,
	},
	nfs3wire.ProcLookup: {
		Name: "LOOKUP", MaxArgs: nfs3wire.FileHandle3MaxSize + maxNames, MaxResults: nfs3wire.Lookup3ResMaxSize,
	},
	nfs3wire.ProcAccess: {
		Name: "ACCESS", MaxArgs: nfs3wire.Access3ArgsMaxSize, MaxResults: nfs3wire.Access3ResMaxSize,
	},
	nfs3wire.ProcReadlink: {
		Name: "READLINK", MaxArgs: nfs3wire.Readlink3ArgsMaxSize, MaxResults: nfs3wire.Readlink3ResMaxReducedSize,
		Size: func(xdr.Decoder) (int, int) { return nfs3wire.Readlink3ResMaxReducedSize, MaxPath },
	},
	nfs3wire.ProcRead: {
		Name: "READ", MaxArgs: nfs3wire.Read3ArgsMaxSize, MaxResults: nfs3wire.Read3ResMaxReducedSize,
		Size: func(args xdr.Decoder) (int, int) {
			args.Opaque(nfs3wire.FileHandleSize)
			args.Uint64()
			return nfs3wire.Read3ResMaxReducedSize, int(min(args.Uint32(), MaxTransfer))
		},
	},
	nfs3wire.ProcWrite: {
		Name: "WRITE", Once: true,
		MaxArgs: nfs3wire.Write3ArgsMaxReducedSize + MaxTransfer, MaxResults: nfs3wire.Write3ResMaxSize,
		Eligible:   eligibleAt(beforeWriteData),
		ArgsPrefix: prefix(beforeWriteData),
	},
	nfs3wire.ProcCreate: {
		Name: "CREATE", Once: true,
		MaxArgs:    nfs3wire.FileHandle3MaxSize + maxNames + nfs3wire.CreateHow3MaxSize,
		MaxResults: nfs3wire.Create3ResMaxSize,
	},
	nfs3wire.ProcMkdir: {
		Name: "MKDIR", Once: true,
		MaxArgs:    nfs3wire.FileHandle3MaxSize + maxNames + nfs3wire.Sattr3MaxSize,
		MaxResults: nfs3wire.Mkdir3ResMaxSize,
	},
	nfs3wire.ProcSymlink: {
		Name: "SYMLINK", Once: true,
		MaxArgs:    nfs3wire.FileHandle3MaxSize + maxNames + nfs3wire.Sattr3MaxSize + maxNames,
		MaxResults: nfs3wire.Symlink3ResMaxSize,
		Eligible:   eligibleAt(beforeSymlinkText),
		ArgsPrefix: prefix(beforeSymlinkText),
	},
	nfs3wire.ProcMknod: {
		Name: "MKNOD", Once: true,
		MaxArgs:    nfs3wire.FileHandle3MaxSize + maxNames + nfs3wire.MknodData3MaxSize,
		MaxResults: nfs3wire.Mknod3ResMaxSize,
	},
	nfs3wire.ProcRemove: {
		Name: "REMOVE", Once: true,
		MaxArgs: nfs3wire.FileHandle3MaxSize + maxNames, MaxResults: nfs3wire.Remove3ResMaxSize,
	},
	nfs3wire.ProcRmdir: {
		Name: "RMDIR", Once: true,
		MaxArgs: nfs3wire.FileHandle3MaxSize + maxNames, MaxResults: nfs3wire.Rmdir3ResMaxSize,
	},
	nfs3wire.ProcRename: {
		Name: "RENAME", Once: true,
		MaxArgs: 2 * (nfs3wire.FileHandle3MaxSize + maxNames), MaxResults: nfs3wire.Rename3ResMaxSize,
	},
	nfs3wire.ProcLink: {
		Name: "LINK", Once: true,
		MaxArgs: 2*nfs3wire.FileHandle3MaxSize + maxNames, MaxResults: nfs3wire.Link3ResMaxSize,
	},
	nfs3wire.ProcReaddir: {
		Name: "READDIR", MaxArgs: nfs3wire.Readdir3ArgsMaxSize,
		Size: func(args xdr.Decoder) (int, int) {
			args.Opaque(nfs3wire.FileHandleSize)
			args.Skip(8 + nfs3wire.CookieVerfSize)
			return directoryReply(args.Uint32()), 0
		},
	},
	nfs3wire.ProcReaddirPlus: {
		Name: "READDIRPLUS", MaxArgs: nfs3wire.ReaddirPlus3ArgsMaxSize,
		Size: func(args xdr.Decoder) (int, int) {
			args.Opaque(nfs3wire.FileHandleSize)
			args.Skip(8 + nfs3wire.CookieVerfSize + 4)
			return directoryReply(args.Uint32()), 0
		},
	},
	nfs3wire.ProcFsstat: {
		Name: "FSSTAT", MaxArgs: nfs3wire.Fsstat3ArgsMaxSize, MaxResults: nfs3wire.Fsstat3ResMaxSize,
	},
	nfs3wire.ProcFsinfo: {
		Name: "FSINFO", MaxArgs: nfs3wire.Fsinfo3ArgsMaxSize, MaxResults: nfs3wire.Fsinfo3ResMaxSize,
	},
	nfs3wire.ProcPathconf: {
		Name: "PATHCONF", MaxArgs: nfs3wire.Pathconf3ArgsMaxSize, MaxResults: nfs3wire.Pathconf3ResMaxSize,
	},
	nfs3wire.ProcCommit: {
		Name: "COMMIT", MaxArgs: nfs3wire.Commit3ArgsMaxSize, MaxResults: nfs3wire.Commit3ResMaxSize,
	},
}}

// MaxMountReply bounds the replies of DUMP and EXPORT, whose lists have no
// bound of their own: the server ends them before.
const MaxMountReply = 256 << 10

// BindingMount3 is the binding of MOUNT version 3 (RFC 8267 §4.5): nothing is
// eligible.
var BindingMount3 = rpc.Binding{Procedures: []rpc.Procedure{
	mount3wire.ProcNull:    {Name: "NULL"},
	mount3wire.ProcMnt:     {Name: "MNT", MaxArgs: mount3wire.DirPathMaxSize, MaxResults: 4 + nfs3wire.FileHandle3MaxSize + 4 + 4},
	mount3wire.ProcDump:    {Name: "DUMP", MaxResults: MaxMountReply},
	mount3wire.ProcUmnt:    {Name: "UMNT", MaxArgs: mount3wire.DirPathMaxSize},
	mount3wire.ProcUmntall: {Name: "UMNTALL"},
	mount3wire.ProcExport:  {Name: "EXPORT", MaxResults: MaxMountReply},
}}

// directoryReply is how large the result of a directory listing gets that may
// take count bytes.
func directoryReply(count uint32) int {
	return 4 + nfs3wire.PostOpAttrMaxSize + nfs3wire.CookieVerfSize + int(min(count, MaxDirectory)) + 8
}

// beforeWriteData steps over what comes before the data of WRITE.
func beforeWriteData(args *xdr.Decoder) {
	args.Opaque(nfs3wire.FileHandleSize)
	args.Skip(8 + 4 + 4)
}

// beforeSymlinkText steps over what comes before the text of SYMLINK.
func beforeSymlinkText(args *xdr.Decoder) {
	var where nfs3wire.DirOpArgs3
	var attr nfs3wire.Sattr3
	where.Decode(args)
	attr.Decode(args)
}

// eligibleAt judges the placed items of a call with one eligible argument: a
// counted item that comes after what before steps over.
func eligibleAt(before func(*xdr.Decoder)) func(xdr.Decoder, []rpc.Placed) bool {
	return func(args xdr.Decoder, placed []rpc.Placed) bool {
		before(&args)
		args.Uint32() // the count stays (RFC 8166 §3.4.4)
		return args.Err() == nil && len(placed) == 1 && int64(placed[0].Position) == int64(args.Position())
	}
}

// prefix measures what before steps over, the following count included.
func prefix(before func(*xdr.Decoder)) func(xdr.Decoder) int {
	return func(args xdr.Decoder) int {
		start := args.Position()
		before(&args)
		args.Uint32()
		return args.Position() - start
	}
}
