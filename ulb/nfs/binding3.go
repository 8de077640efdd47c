package nfs

import (
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/mount3wire"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// Binding3 is the binding of NFS version 3 (RFC 8267 §4). Eligible are the data of READ and WRITE, and the
// text of READLINK and SYMLINK: at most one item of a call.
var Binding3 = rpc.Binding{Procedures: []rpc.Procedure{
	wire.ProcNull:    {Name: "NULL"},
	wire.ProcGetattr: reads("GETATTR", wire.Getattr3ArgsMaxSize, wire.Getattr3ResMaxSize),
	wire.ProcSetattr: changes("SETATTR", wire.Setattr3ArgsMaxSize, wire.Setattr3ResMaxSize),
	wire.ProcLookup:  reads("LOOKUP", wire.FileHandle3MaxSize+maxNames, wire.Lookup3ResMaxSize),
	wire.ProcAccess:  reads("ACCESS", wire.Access3ArgsMaxSize, wire.Access3ResMaxSize),
	wire.ProcReadlink: {
		Name: "READLINK", MaxArgs: wire.Readlink3ArgsMaxSize, MaxResults: wire.Readlink3ResMaxReducedSize,
		Walk: func(args *xdr.Decoder, s *rpc.Shape) {
			handle(args, s)
			s.Payload = MaxPath
		},
	},
	wire.ProcRead: {
		Name: "READ", MaxArgs: wire.Read3ArgsMaxSize, MaxResults: wire.Read3ResMaxReducedSize,
		Walk: func(args *xdr.Decoder, s *rpc.Shape) {
			handle(args, s)
			args.Uint64()
			s.Payload = int(min(args.Uint32(), MaxTransfer))
		},
	},
	wire.ProcWrite: {
		Name: "WRITE", Once: true,
		MaxArgs: wire.Write3ArgsMaxReducedSize + MaxTransfer, MaxResults: wire.Write3ResMaxSize,
		Walk: func(args *xdr.Decoder, s *rpc.Shape) {
			handle(args, s)
			args.Skip(8 + 4 + 4)
			s.Item(args)
		},
	},
	wire.ProcCreate: changes("CREATE", wire.FileHandle3MaxSize+maxNames+wire.CreateHow3MaxSize, wire.Create3ResMaxSize),
	wire.ProcMkdir:  changes("MKDIR", wire.FileHandle3MaxSize+maxNames+wire.Sattr3MaxSize, wire.Mkdir3ResMaxSize),
	wire.ProcSymlink: {
		Name: "SYMLINK", Once: true,
		MaxArgs:    wire.FileHandle3MaxSize + maxNames + wire.Sattr3MaxSize + maxNames,
		MaxResults: wire.Symlink3ResMaxSize,
		Walk: func(args *xdr.Decoder, s *rpc.Shape) {
			var where wire.DirOpArgs3
			var attr wire.Sattr3
			where.Decode(args)
			attr.Decode(args)
			s.Object = where.Dir.Data
			s.Item(args)
		},
	},
	wire.ProcMknod:  changes("MKNOD", wire.FileHandle3MaxSize+maxNames+wire.MknodData3MaxSize, wire.Mknod3ResMaxSize),
	wire.ProcRemove: changes("REMOVE", wire.FileHandle3MaxSize+maxNames, wire.Remove3ResMaxSize),
	wire.ProcRmdir:  changes("RMDIR", wire.FileHandle3MaxSize+maxNames, wire.Rmdir3ResMaxSize),
	wire.ProcRename: changes("RENAME", 2*(wire.FileHandle3MaxSize+maxNames), wire.Rename3ResMaxSize),
	wire.ProcLink:   changes("LINK", 2*wire.FileHandle3MaxSize+maxNames, wire.Link3ResMaxSize),
	wire.ProcReaddir: {
		Name: "READDIR", MaxArgs: wire.Readdir3ArgsMaxSize,
		Walk: func(args *xdr.Decoder, s *rpc.Shape) {
			handle(args, s)
			args.Skip(8 + wire.CookieVerfSize)
			s.Words = directoryReply(args.Uint32())
		},
	},
	wire.ProcReaddirPlus: {
		Name: "READDIRPLUS", MaxArgs: wire.ReaddirPlus3ArgsMaxSize,
		Walk: func(args *xdr.Decoder, s *rpc.Shape) {
			handle(args, s)
			args.Skip(8 + wire.CookieVerfSize + 4)
			s.Words = directoryReply(args.Uint32())
		},
	},
	wire.ProcFsstat:   reads("FSSTAT", wire.Fsstat3ArgsMaxSize, wire.Fsstat3ResMaxSize),
	wire.ProcFsinfo:   reads("FSINFO", wire.Fsinfo3ArgsMaxSize, wire.Fsinfo3ResMaxSize),
	wire.ProcPathconf: reads("PATHCONF", wire.Pathconf3ArgsMaxSize, wire.Pathconf3ResMaxSize),
	wire.ProcCommit:   reads("COMMIT", wire.Commit3ArgsMaxSize, wire.Commit3ResMaxSize),
}}

// reads returns a procedure that may be executed twice. args and results are the largest sizes of its
// arguments and its results, in bytes.
func reads(name string, args, results int) rpc.Procedure {
	return rpc.Procedure{Name: name, Walk: handle, MaxArgs: args, MaxResults: results}
}

// changes returns a procedure like reads, but one that must not be executed twice.
func changes(name string, args, results int) rpc.Procedure {
	return rpc.Procedure{Name: name, Walk: handle, Once: true, MaxArgs: args, MaxResults: results}
}

// MaxMountReply is the size of the largest reply to DUMP and EXPORT, in bytes. The protocol does
// not limit the length of their lists, so the server leaves out the entries that do not fit.
const MaxMountReply = 256 << 10

// maxFlavors is the largest number of security flavors of an export.
const maxFlavors = 4

// BindingMount3 is the binding of MOUNT version 3 (RFC 8267 §4.5): nothing is eligible.
var BindingMount3 = rpc.Binding{Procedures: []rpc.Procedure{
	mount3wire.ProcNull: {Name: "NULL"},
	mount3wire.ProcMnt: {
		Name: "MNT", MaxArgs: mount3wire.DirPathMaxSize, MaxResults: 4 + wire.FileHandle3MaxSize + 4 + maxFlavors*4,
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
	return 4 + wire.PostOpAttrMaxSize + wire.CookieVerfSize + int(min(count, MaxDirectory)) + 8
}

// handle decodes the file handle that begins the arguments of every procedure except NULL. It
// stores the handle in s.Object, the object of the call.
func handle(args *xdr.Decoder, s *rpc.Shape) { s.Object = args.Opaque(wire.FileHandleSize) }
