package nfs

import (
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nlm4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nsmwire"
)

// BindingNLM4 is the binding of the Network Lock Manager version 4: nothing is eligible (RFC 8267 §5.1). The calls that a
// server sends to a client are not in it. The reply to a call with _MSG is empty and is not kept for repeated calls (Once):
// another call has the result.
var BindingNLM4 = rpc.Binding{Procedures: []rpc.Procedure{
	nlm4wire.ProcNull:       {Name: "NULL"},
	nlm4wire.ProcTest:       {Name: "TEST", MaxArgs: nlm4wire.TestArgs4MaxSize, MaxResults: nlm4wire.TestRes4MaxSize, Walk: fileOfLock(4)},
	nlm4wire.ProcLock:       {Name: "LOCK", Once: true, MaxArgs: nlm4wire.LockArgs4MaxSize, MaxResults: nlm4wire.Res4MaxSize, Walk: fileOfLock(8)},
	nlm4wire.ProcCancel:     {Name: "CANCEL", Once: true, MaxArgs: nlm4wire.CancelArgs4MaxSize, MaxResults: nlm4wire.Res4MaxSize, Walk: fileOfLock(8)},
	nlm4wire.ProcUnlock:     {Name: "UNLOCK", Once: true, MaxArgs: nlm4wire.UnlockArgs4MaxSize, MaxResults: nlm4wire.Res4MaxSize, Walk: fileOfLock(0)},
	nlm4wire.ProcTestMsg:    {Name: "TEST_MSG", MaxArgs: nlm4wire.TestArgs4MaxSize, Walk: fileOfLock(4)},
	nlm4wire.ProcLockMsg:    {Name: "LOCK_MSG", MaxArgs: nlm4wire.LockArgs4MaxSize, Walk: fileOfLock(8)},
	nlm4wire.ProcCancelMsg:  {Name: "CANCEL_MSG", MaxArgs: nlm4wire.CancelArgs4MaxSize, Walk: fileOfLock(8)},
	nlm4wire.ProcUnlockMsg:  {Name: "UNLOCK_MSG", MaxArgs: nlm4wire.UnlockArgs4MaxSize, Walk: fileOfLock(0)},
	nlm4wire.ProcGrantedRes: {Name: "GRANTED_RES", MaxArgs: nlm4wire.Res4MaxSize},
	nlm4wire.ProcShare:      {Name: "SHARE", Once: true, MaxArgs: nlm4wire.ShareArgs4MaxSize, MaxResults: nlm4wire.ShareRes4MaxSize, Walk: fileOfLock(0)},
	nlm4wire.ProcUnshare:    {Name: "UNSHARE", Once: true, MaxArgs: nlm4wire.ShareArgs4MaxSize, MaxResults: nlm4wire.ShareRes4MaxSize, Walk: fileOfLock(0)},
	nlm4wire.ProcNmLock:     {Name: "NM_LOCK", Once: true, MaxArgs: nlm4wire.LockArgs4MaxSize, MaxResults: nlm4wire.Res4MaxSize, Walk: fileOfLock(8)},
	nlm4wire.ProcFreeAll:    {Name: "FREE_ALL", Once: true, MaxArgs: nlm4wire.Notify4MaxSize},
}}

// BindingNLM3 and BindingNLM1 are the bindings of versions 3 and 1 (X/Open C702). No call and no reply is longer than in
// version 4. Version 1 ends with GRANTED_RES.
var (
	BindingNLM3 = BindingNLM4
	BindingNLM1 = rpc.Binding{Procedures: BindingNLM4.Procedures[:nlm4wire.ProcGrantedRes+1]}
)

// fileOfLock returns a Walk that stores in Shape.Object the file handle of a lock. flags is the size, in bytes, of
// what stands between the cookie and the lock.
func fileOfLock(flags int) func(args *xdr.Decoder, s *rpc.Shape) {
	return func(args *xdr.Decoder, s *rpc.Shape) {
		args.Opaque(nlm4wire.ObjectLen)
		args.Skip(flags)
		args.Opaque(nlm4wire.NameLen)
		s.Object = args.Opaque(nlm4wire.ObjectLen)
	}
}

// BindingNSM is the binding of the Network Status Monitor version 1.
var BindingNSM = rpc.Binding{Procedures: []rpc.Procedure{
	nsmwire.ProcNull:   {Name: "NULL"},
	nsmwire.ProcStat:   {Name: "STAT", MaxArgs: nsmwire.NameMaxSize, MaxResults: nsmwire.StatResMaxSize},
	nsmwire.ProcNotify: {Name: "NOTIFY", Once: true, MaxArgs: nsmwire.StatusMaxSize},
}}
