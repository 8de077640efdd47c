package nfs3wire

import (
	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr/xdrtest"
)

// procedures lists all procedures except NULL, with their types in this package and in go-xdr.
var procedures = []struct {
	proc                  Procedure
	args, res             func() xdrtest.Value
	argsOracle, resOracle xdrtest.Foreign
}{
	{
		ProcGetattr, fresh[Getattr3Args], fresh[Getattr3Res],
		xdrtest.ForeignStruct[nfsv3.Getattr3args](), xdrtest.ForeignUnion(nfsv3.ReadGetattr3res),
	},
	{
		ProcSetattr, fresh[Setattr3Args], fresh[Setattr3Res],
		xdrtest.ForeignStruct[nfsv3.Setattr3args](), xdrtest.ForeignUnion(nfsv3.ReadSetattr3res),
	},
	{
		ProcLookup, fresh[Lookup3Args], fresh[Lookup3Res],
		xdrtest.ForeignStruct[nfsv3.Lookup3args](), xdrtest.ForeignUnion(nfsv3.ReadLookup3res),
	},
	{
		ProcAccess, fresh[Access3Args], fresh[Access3Res],
		xdrtest.ForeignStruct[nfsv3.Access3args](), xdrtest.ForeignUnion(nfsv3.ReadAccess3res),
	},
	{
		ProcReadlink, fresh[Readlink3Args], fresh[Readlink3Res],
		xdrtest.ForeignStruct[nfsv3.Readlink3args](), xdrtest.ForeignUnion(nfsv3.ReadReadlink3res),
	},
	{
		ProcRead, fresh[Read3Args], fresh[Read3Res],
		xdrtest.ForeignStruct[nfsv3.Read3args](), xdrtest.ForeignUnion(nfsv3.ReadRead3res),
	},
	{
		ProcWrite, fresh[Write3Args], fresh[Write3Res],
		xdrtest.ForeignStruct[nfsv3.Write3args](), xdrtest.ForeignUnion(nfsv3.ReadWrite3res),
	},
	{
		ProcCreate, fresh[Create3Args], fresh[Create3Res],
		xdrtest.ForeignStruct[nfsv3.Create3args](), xdrtest.ForeignUnion(nfsv3.ReadCreate3res),
	},
	{
		ProcMkdir, fresh[Mkdir3Args], fresh[Mkdir3Res],
		xdrtest.ForeignStruct[nfsv3.Mkdir3args](), xdrtest.ForeignUnion(nfsv3.ReadMkdir3res),
	},
	{
		ProcSymlink, fresh[Symlink3Args], fresh[Symlink3Res],
		xdrtest.ForeignStruct[nfsv3.Symlink3args](), xdrtest.ForeignUnion(nfsv3.ReadSymlink3res),
	},
	{
		ProcMknod, fresh[Mknod3Args], fresh[Mknod3Res],
		xdrtest.ForeignStruct[nfsv3.Mknod3args](), xdrtest.ForeignUnion(nfsv3.ReadMknod3res),
	},
	{
		ProcRemove, fresh[Remove3Args], fresh[Remove3Res],
		xdrtest.ForeignStruct[nfsv3.Remove3args](), xdrtest.ForeignUnion(nfsv3.ReadRemove3res),
	},
	{
		ProcRmdir, fresh[Rmdir3Args], fresh[Rmdir3Res],
		xdrtest.ForeignStruct[nfsv3.Rmdir3args](), xdrtest.ForeignUnion(nfsv3.ReadRmdir3res),
	},
	{
		ProcRename, fresh[Rename3Args], fresh[Rename3Res],
		xdrtest.ForeignStruct[nfsv3.Rename3args](), xdrtest.ForeignUnion(nfsv3.ReadRename3res),
	},
	{
		ProcLink, fresh[Link3Args], fresh[Link3Res],
		xdrtest.ForeignStruct[nfsv3.Link3args](), xdrtest.ForeignUnion(nfsv3.ReadLink3res),
	},
	{
		ProcReaddir, fresh[Readdir3Args], fresh[Readdir3Res],
		xdrtest.ForeignStruct[nfsv3.Readdir3args](), xdrtest.ForeignUnion(nfsv3.ReadReaddir3res),
	},
	{
		ProcReaddirPlus, fresh[ReaddirPlus3Args], fresh[ReaddirPlus3Res],
		xdrtest.ForeignStruct[nfsv3.Readdirplus3args](), xdrtest.ForeignUnion(nfsv3.ReadReaddirplus3res),
	},
	{
		ProcFsstat, fresh[Fsstat3Args], fresh[Fsstat3Res],
		xdrtest.ForeignStruct[nfsv3.Fsstat3args](), xdrtest.ForeignUnion(nfsv3.ReadFsstat3res),
	},
	{
		ProcFsinfo, fresh[Fsinfo3Args], fresh[Fsinfo3Res],
		xdrtest.ForeignStruct[nfsv3.Fsinfo3args](), xdrtest.ForeignUnion(nfsv3.ReadFsinfo3res),
	},
	{
		ProcPathconf, fresh[Pathconf3Args], fresh[Pathconf3Res],
		xdrtest.ForeignStruct[nfsv3.Pathconf3args](), xdrtest.ForeignUnion(nfsv3.ReadPathconf3res),
	},
	{
		ProcCommit, fresh[Commit3Args], fresh[Commit3Res],
		xdrtest.ForeignStruct[nfsv3.Commit3args](), xdrtest.ForeignUnion(nfsv3.ReadCommit3res),
	},
}

func fresh[T any, P interface {
	*T
	xdrtest.Value
}]() xdrtest.Value {
	return P(new(T))
}
