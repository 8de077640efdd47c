package hostile

import (
	"fmt"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	mountwire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/mount3wire"
	wire3 "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	nlmwire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nlm4wire"
)

// Everything has what the calls of EveryCall name: a directory with many names and a file, which their caller need
// not be allowed to use, and the path of a directory to mount.
type Everything struct {
	Dir, File []byte
	Path      string
}

// A Call is one procedure, with arguments that a client could send.
type Call struct {
	Name string
	// Message returns the call with this XID.
	Message func(xid uint32) []byte
}

type encoder interface{ Encode(w *xdr.Writer) }

// procedure returns a call of a procedure. Its arguments may be nil.
func procedure(name fmt.Stringer, program, version, number uint32, args encoder) Call {
	return Call{name.String(), func(xid uint32) []byte {
		b := call(xid, program, number)
		be.PutUint32(b[16:], version)
		if args == nil {
			return b
		}
		w := xdr.NewWriter(make([]byte, 0, 4*kib))
		args.Encode(w)
		return append(b, whole(w)...)
	}}
}

// named is the name of a procedure that has no type of its own.
type named string

func (n named) String() string { return string(n) }

// EveryCall returns a call of each procedure of NFSv3, MOUNT and NLM, NULL of NFSv4, and some that the daemon does not serve:
// the callbacks, rpcbind, and numbers that the programs do not have.
func (e Everything) EveryCall() (all []Call) {
	for p := wire3.ProcNull; p <= wire3.ProcCommit; p++ {
		all = append(all, procedure(p, wire3.Program, wire3.Version, uint32(p), e.nfs3(p)))
	}
	for p := mountwire.ProcNull; p <= mountwire.ProcExport; p++ {
		var args encoder
		if p == mountwire.ProcMnt || p == mountwire.ProcUmnt {
			path := mountwire.DirPath(e.Path)
			args = &path
		}
		all = append(all, procedure(p, mountwire.Program, mountwire.Version, uint32(p), args))
	}
	for p := nlmwire.ProcNull; p <= nlmwire.ProcFreeAll; p++ {
		all = append(all, procedure(p, nlmwire.Program, nlmwire.Version, uint32(p), e.nlm(p)))
	}
	for _, version := range []uint32{1, 3} { // whose arguments are shorter
		for _, p := range []nlmwire.Procedure{nlmwire.ProcTest, nlmwire.ProcLock, nlmwire.ProcCancel, nlmwire.ProcUnlock, nlmwire.ProcLockMsg} {
			all = append(all, procedure(p, nlmwire.Program, version, uint32(p), e.narrow(p)))
		}
	}
	return append(all,
		procedure(named("NFSPROC4_NULL"), nfsProgram, wire.Version, 0, nil),
		procedure(named("NFSv4 procedure 2"), nfsProgram, wire.Version, 2, nil),
		procedure(named("NFSv2"), nfsProgram, 2, 1, nil),
		procedure(named("CB_NULL"), 0x40000000, 1, 0, nil),
		procedure(named("CB_COMPOUND"), 0x40000000, 1, 1, nil),
		procedure(named("rpcbind DUMP"), 100000, 2, 4, nil),
		procedure(named("NSM"), 100024, 1, 2, nil),
	)
}

func (e Everything) nfs3(p wire3.Procedure) encoder {
	dir, file := wire3.FileHandle3{Data: e.Dir}, wire3.FileHandle3{Data: e.File}
	absent := wire3.DirOpArgs3{Dir: dir, Name: wire3.Filename3("absent")}
	present := wire3.DirOpArgs3{Dir: dir, Name: wire3.Filename3("present")}
	switch p {
	case wire3.ProcGetattr:
		return &wire3.Getattr3Args{Object: file}
	case wire3.ProcSetattr:
		return &wire3.Setattr3Args{Object: file}
	case wire3.ProcLookup:
		return &wire3.Lookup3Args{What: absent}
	case wire3.ProcAccess:
		return &wire3.Access3Args{Object: file, Access: 63}
	case wire3.ProcReadlink:
		return &wire3.Readlink3Args{Symlink: file}
	case wire3.ProcRead:
		return &wire3.Read3Args{FileHandle: file, Count: 512}
	case wire3.ProcWrite:
		return &wire3.Write3Args{FileHandle: file, Count: 512, Data: xdr.Eligible{Data: make([]byte, 512)}}
	case wire3.ProcCreate:
		return &wire3.Create3Args{Where: present}
	case wire3.ProcMkdir:
		return &wire3.Mkdir3Args{Where: present}
	case wire3.ProcSymlink:
		return &wire3.Symlink3Args{Where: present}
	case wire3.ProcMknod:
		return &wire3.Mknod3Args{Where: present, What: wire3.MknodData3{Type: wire3.NF3Fifo}}
	case wire3.ProcRemove:
		return &wire3.Remove3Args{Object: absent}
	case wire3.ProcRmdir:
		return &wire3.Rmdir3Args{Object: absent}
	case wire3.ProcRename:
		return &wire3.Rename3Args{From: absent, To: present}
	case wire3.ProcLink:
		return &wire3.Link3Args{FileHandle: file, Link: present}
	case wire3.ProcReaddir:
		return &wire3.Readdir3Args{Dir: dir, Count: kib}
	case wire3.ProcReaddirPlus:
		return &wire3.ReaddirPlus3Args{Dir: dir, DirCount: kib, MaxCount: kib}
	case wire3.ProcFsstat:
		return &wire3.Fsstat3Args{FSRoot: dir}
	case wire3.ProcFsinfo:
		return &wire3.Fsinfo3Args{FSRoot: dir}
	case wire3.ProcPathconf:
		return &wire3.Pathconf3Args{Object: file}
	case wire3.ProcCommit:
		return &wire3.Commit3Args{FileHandle: file}
	}
	return nil
}

// narrow returns the arguments of a procedure of the versions 1 and 3.
func (e Everything) narrow(p nlmwire.Procedure) encoder {
	lock := nlmwire.Lock3{CallerName: []byte("every"), FileHandle: e.File, OH: []byte("owner"), Offset: 1 << 30, Length: 1}
	switch p {
	case nlmwire.ProcTest:
		return &nlmwire.TestArgs3{Lock: lock}
	case nlmwire.ProcLock, nlmwire.ProcLockMsg:
		return &nlmwire.LockArgs3{Lock: lock}
	case nlmwire.ProcCancel:
		return &nlmwire.CancelArgs3{Lock: lock}
	}
	return &nlmwire.UnlockArgs3{Lock: lock}
}

func (e Everything) nlm(p nlmwire.Procedure) encoder {
	lock := nlmwire.Lock4{CallerName: []byte("every"), FileHandle: e.File, OH: []byte("owner"), Offset: 1 << 40, Length: 1}
	share := nlmwire.Share4{CallerName: lock.CallerName, FileHandle: lock.FileHandle, OH: lock.OH, Access: 1}
	switch p {
	case nlmwire.ProcTest, nlmwire.ProcGranted, nlmwire.ProcTestMsg, nlmwire.ProcGrantedMsg:
		return &nlmwire.TestArgs4{Lock: lock}
	case nlmwire.ProcLock, nlmwire.ProcLockMsg, nlmwire.ProcNmLock:
		return &nlmwire.LockArgs4{Lock: lock}
	case nlmwire.ProcCancel, nlmwire.ProcCancelMsg:
		return &nlmwire.CancelArgs4{Lock: lock}
	case nlmwire.ProcUnlock, nlmwire.ProcUnlockMsg:
		return &nlmwire.UnlockArgs4{Lock: lock}
	case nlmwire.ProcShare, nlmwire.ProcUnshare:
		return &nlmwire.ShareArgs4{Share: share}
	case nlmwire.ProcFreeAll:
		return &nlmwire.Notify4{Name: []byte("nobody")}
	case nlmwire.ProcTestRes:
		return &nlmwire.TestRes4{}
	case nlmwire.ProcLockRes, nlmwire.ProcCancelRes, nlmwire.ProcUnlockRes, nlmwire.ProcGrantedRes:
		return &nlmwire.Res4{}
	}
	return nil
}

// lastOperations has the highest operation number of each minor version.
var lastOperations = [...]wire.OpNum{wire.OpReleaseLockOwner, wire.OpReclaimComplete, wire.OpRemoveXattr}

// EveryOperation returns each operation of a minor version of NFSv4. The arguments are for the file as the
// current handle, or the directory if the operation uses names. They name the client ID.
func (e Everything) EveryOperation(minor uint32, client uint64) (all []op4) {
	for n := wire.OpAccess; n <= lastOperations[minor]; n++ {
		all = append(all, op4{n, e.nfs4(n, client)})
	}
	return append(all, op4{number: wire.OpIllegal})
}

// On returns the handle for which the arguments of an operation are.
func (e Everything) On(n wire.OpNum) []byte {
	switch n {
	case wire.OpCreate, wire.OpLink, wire.OpLookup, wire.OpLookupp, wire.OpReaddir, wire.OpRemove, wire.OpRename, wire.OpSecInfo:
		return e.Dir
	}
	return e.File
}

// nfs4 returns the arguments of an operation, or nil if it has none or if the daemon does not serve it.
func (e Everything) nfs4(n wire.OpNum, client uint64) encoder {
	owner := wire.StateOwner4{Clientid: client, Owner: []byte("owner")}
	if a := e.names4(n); a != nil {
		return a
	}
	if a := e.sessions4(n, client); a != nil {
		return a
	}
	switch n {
	case wire.OpAccess:
		return &wire.Access4Args{Access: 63}
	case wire.OpClose:
		return &wire.Close4Args{}
	case wire.OpCommit:
		return &wire.Commit4Args{}
	case wire.OpDelegpurge:
		return &wire.DelegPurge4Args{Clientid: client}
	case wire.OpDelegreturn:
		return &wire.DelegReturn4Args{}
	case wire.OpGetattr:
		return &wire.Getattr4Args{AttrRequest: wire.Bits(0, 1, 3, 4, 8, 12, 20, 33, 36, 37)}
	case wire.OpLock:
		return &wire.Lock4Args{Locktype: wire.ReadLt, Offset: 1 << 40, Length: 1, Locker: wire.Locker4{NewLockOwner: true, OpenOwner: wire.OpenToLockOwner4{LockOwner: owner}}}
	case wire.OpLockt:
		return &wire.Lockt4Args{Locktype: wire.WriteLt, Offset: 1, Length: 1, Owner: owner}
	case wire.OpLocku:
		return &wire.Locku4Args{Locktype: wire.ReadLt, Length: 1}
	case wire.OpNverify, wire.OpVerify:
		return &wire.Verify4Args{Attributes: wire.FAttr4{Attrmask: wire.Bits(4), AttrVals: make([]byte, 8)}}
	case wire.OpOpen:
		return &wire.Open4Args{ShareAccess: wire.Open4ShareAccessRead, Owner: owner, Claim: wire.OpenClaim4{Claim: wire.ClaimFH}}
	case wire.OpOpenattr:
		return &wire.Openattr4Args{}
	case wire.OpOpenConfirm:
		return &wire.OpenConfirm4Args{}
	case wire.OpOpenDowngrade:
		return &wire.OpenDowngrade4Args{ShareAccess: wire.Open4ShareAccessRead}
	case wire.OpPutFH:
		return &wire.PutFH4Args{Object: e.File}
	case wire.OpRead:
		return &wire.Read4Args{Count: 512}
	case wire.OpRenew:
		return &wire.Renew4Args{Clientid: client}
	case wire.OpSetattr:
		return &wire.Setattr4Args{}
	case wire.OpWrite:
		return &wire.Write4Args{Data: xdr.Eligible{Data: make([]byte, 512)}}
	case wire.OpReleaseLockOwner:
		return &wire.ReleaseLockOwner4Args{LockOwner: owner}
	case wire.OpAllocate:
		return &wire.Allocate4Args{Length: 4 * kib}
	case wire.OpCopy:
		return &wire.Copy4Args{Count: 4 * kib, DstOffset: 8 * kib, Consecutive: true, Synchronous: true}
	case wire.OpDeallocate:
		return &wire.Deallocate4Args{Length: 4 * kib}
	case wire.OpIOAdvise:
		return &wire.IOAdvise4Args{Count: 4 * kib}
	case wire.OpReadPlus:
		return &wire.ReadPlus4Args{Count: 512}
	case wire.OpSeek:
		return &wire.Seek4Args{}
	case wire.OpClone:
		return &wire.Clone4Args{Count: 4 * kib, DstOffset: 8 * kib}
	case wire.OpListXattrs:
		return &wire.ListXattrs4Args{Maxcount: kib}
	}
	return nil
}

// names4 returns the arguments of an operation that has a name.
func (e Everything) names4(n wire.OpNum) encoder {
	absent, present := wire.UTF8String("absent"), wire.UTF8String("present")
	switch n {
	case wire.OpCreate:
		return &wire.Create4Args{Objtype: wire.Createtype4{Type: wire.NF4Dir}, Objname: present}
	case wire.OpLink:
		return &wire.Link4Args{Newname: present}
	case wire.OpLookup:
		return &wire.Lookup4Args{Objname: absent}
	case wire.OpReaddir:
		return &wire.Readdir4Args{Dircount: kib, Maxcount: kib, AttrRequest: wire.Bits(1, 3, 4, 20)}
	case wire.OpRemove:
		return &wire.Remove4Args{Target: absent}
	case wire.OpRename:
		return &wire.Rename4Args{Oldname: absent, Newname: present}
	case wire.OpSecInfo:
		return &wire.SecInfo4Args{Name: absent}
	case wire.OpGetXattr:
		return &wire.GetXattr4Args{Name: absent}
	case wire.OpSetXattr:
		return &wire.SetXattr4Args{Key: present, Value: make([]byte, 8)}
	case wire.OpRemoveXattr:
		return &wire.RemoveXattr4Args{Name: absent}
	}
	return nil
}

// sessions4 returns the arguments of an operation on clients and sessions.
func (e Everything) sessions4(n wire.OpNum, client uint64) encoder {
	name := []byte("every operation")
	channel := wire.ChannelAttrs4{Maxrequestsize: 4 * kib, Maxresponsesize: 4 * kib, MaxresponsesizeCached: kib, Maxoperations: 8, Maxrequests: 4}
	switch n {
	case wire.OpSetClientID:
		return &wire.SetClientID4Args{Client: wire.NFSClientID4{ID: name}, Callback: wire.CBClient4{
			CBProgram: 0x40000000, CBLocation: wire.NetAddr4{RNetid: []byte("tcp"), RAddr: []byte("127.0.0.1.0.9")},
		}}
	case wire.OpSetClientIDConfirm:
		return &wire.SetClientIDConfirm4Args{Clientid: client}
	case wire.OpBackchannelCtl:
		return &wire.BackchannelCtl4Args{CBProgram: 0x40000000}
	case wire.OpBindConnToSession:
		return &wire.BindConnToSession4Args{Dir: wire.Cdfc4Fore}
	case wire.OpExchangeID:
		return &wire.ExchangeID4Args{Clientowner: wire.ClientOwner4{Ownerid: name}}
	case wire.OpCreateSession:
		return &wire.CreateSession4Args{Clientid: client, ForeChanAttrs: channel, BackChanAttrs: channel, CBProgram: 0x40000000}
	case wire.OpDestroySession:
		return &wire.DestroySession4Args{}
	case wire.OpFreeStateID:
		return &wire.FreeStateID4Args{}
	case wire.OpSequence:
		return &wire.Sequence4Args{}
	case wire.OpSetSSV:
		return &wire.SetSsv4Args{Ssv: make([]byte, 32), Digest: make([]byte, 32)}
	case wire.OpTestStateID:
		return &wire.TestStateID4Args{}
	case wire.OpDestroyClientID:
		return &wire.DestroyClientID4Args{Clientid: client}
	case wire.OpReclaimComplete:
		return &wire.ReclaimComplete4Args{}
	case wire.OpSecInfoNoName:
		return new(wire.SecinfoStyle4)
	}
	return nil
}
