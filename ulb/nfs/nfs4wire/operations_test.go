package nfs4wire

import (
	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv4"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr/xdrtest"
)

// operation is an operation of COMPOUND or CB_COMPOUND with its types in this package and in
// go-xdr, which does not have the operations of RFC 8276. args is nil if the operation has no
// arguments.
type operation[N OpNum | CBOpNum] struct {
	op                    N
	args, res             func() xdrtest.Value
	argsOracle, resOracle xdrtest.Foreign
}

// none is used if go-xdr has no such type.
var none xdrtest.Foreign

// operations lists the operations of COMPOUND that have types.
var operations = []operation[OpNum]{
	{
		OpAccess, fresh[Access4Args], fresh[Access4Res],
		xdrtest.ForeignStruct[nfsv4.Access4args](), xdrtest.ForeignUnion(nfsv4.ReadAccess4res),
	},
	{
		OpClose, fresh[Close4Args], fresh[Close4Res],
		xdrtest.ForeignStruct[nfsv4.Close4args](), xdrtest.ForeignUnion(nfsv4.ReadClose4res),
	},
	{
		OpCommit, fresh[Commit4Args], fresh[Commit4Res],
		xdrtest.ForeignStruct[nfsv4.Commit4args](), xdrtest.ForeignUnion(nfsv4.ReadCommit4res),
	},
	{
		OpCreate, fresh[Create4Args], fresh[Create4Res],
		xdrtest.ForeignStruct[nfsv4.Create4args](), xdrtest.ForeignUnion(nfsv4.ReadCreate4res),
	},
	{
		OpDelegpurge, fresh[DelegPurge4Args], fresh[DelegPurge4Res],
		xdrtest.ForeignStruct[nfsv4.Delegpurge4args](), xdrtest.ForeignStruct[nfsv4.Delegpurge4res](),
	},
	{
		OpDelegreturn, fresh[DelegReturn4Args], fresh[DelegReturn4Res],
		xdrtest.ForeignStruct[nfsv4.Delegreturn4args](), xdrtest.ForeignStruct[nfsv4.Delegreturn4res](),
	},
	{
		OpGetattr, fresh[Getattr4Args], fresh[Getattr4Res],
		xdrtest.ForeignStruct[nfsv4.Getattr4args](), xdrtest.ForeignUnion(nfsv4.ReadGetattr4res),
	},
	{
		OpGetFH, nil, fresh[GetFH4Res],
		none, xdrtest.ForeignUnion(nfsv4.ReadGetfh4res),
	},
	{
		OpLink, fresh[Link4Args], fresh[Link4Res],
		xdrtest.ForeignStruct[nfsv4.Link4args](), xdrtest.ForeignUnion(nfsv4.ReadLink4res),
	},
	{
		OpLock, fresh[Lock4Args], fresh[Lock4Res],
		xdrtest.ForeignStruct[nfsv4.Lock4args](), xdrtest.ForeignUnion(nfsv4.ReadLock4res),
	},
	{
		OpLockt, fresh[Lockt4Args], fresh[Lockt4Res],
		xdrtest.ForeignStruct[nfsv4.Lockt4args](), xdrtest.ForeignUnion(nfsv4.ReadLockt4res),
	},
	{
		OpLocku, fresh[Locku4Args], fresh[Locku4Res],
		xdrtest.ForeignStruct[nfsv4.Locku4args](), xdrtest.ForeignUnion(nfsv4.ReadLocku4res),
	},
	{
		OpLookup, fresh[Lookup4Args], fresh[Lookup4Res],
		xdrtest.ForeignStruct[nfsv4.Lookup4args](), xdrtest.ForeignStruct[nfsv4.Lookup4res](),
	},
	{
		OpLookupp, nil, fresh[Lookupp4Res],
		none, xdrtest.ForeignStruct[nfsv4.Lookupp4res](),
	},
	{
		OpNverify, fresh[Nverify4Args], fresh[Nverify4Res],
		xdrtest.ForeignStruct[nfsv4.Nverify4args](), xdrtest.ForeignStruct[nfsv4.Nverify4res](),
	},
	{
		OpOpen, fresh[open4Args], fresh[open4Res],
		xdrtest.ForeignStruct[nfsv4.Open4args](), xdrtest.ForeignUnion(nfsv4.ReadOpen4res),
	},
	{
		OpOpenattr, fresh[Openattr4Args], fresh[Openattr4Res],
		xdrtest.ForeignStruct[nfsv4.Openattr4args](), xdrtest.ForeignStruct[nfsv4.Openattr4res](),
	},
	{
		OpOpenConfirm, fresh[OpenConfirm4Args], fresh[OpenConfirm4Res],
		xdrtest.ForeignStruct[nfsv4.OpenConfirm4args](), xdrtest.ForeignUnion(nfsv4.ReadOpenConfirm4res),
	},
	{
		OpOpenDowngrade, fresh[OpenDowngrade4Args], fresh[OpenDowngrade4Res],
		xdrtest.ForeignStruct[nfsv4.OpenDowngrade4args](), xdrtest.ForeignUnion(nfsv4.ReadOpenDowngrade4res),
	},
	{
		OpPutFH, fresh[PutFH4Args], fresh[PutFH4Res],
		xdrtest.ForeignStruct[nfsv4.Putfh4args](), xdrtest.ForeignStruct[nfsv4.Putfh4res](),
	},
	{
		OpPutPubFH, nil, fresh[PutPubFH4Res],
		none, xdrtest.ForeignStruct[nfsv4.Putpubfh4res](),
	},
	{
		OpPutRootFH, nil, fresh[PutRootFH4Res],
		none, xdrtest.ForeignStruct[nfsv4.Putrootfh4res](),
	},
	{
		OpRead, fresh[Read4Args], fresh[Read4Res],
		xdrtest.ForeignStruct[nfsv4.Read4args](), xdrtest.ForeignUnion(nfsv4.ReadRead4res),
	},
	{
		OpReaddir, fresh[Readdir4Args], fresh[Readdir4Res],
		xdrtest.ForeignStruct[nfsv4.Readdir4args](), xdrtest.ForeignUnion(nfsv4.ReadReaddir4res),
	},
	{
		OpReadlink, nil, fresh[Readlink4Res],
		none, xdrtest.ForeignUnion(nfsv4.ReadReadlink4res),
	},
	{
		OpRemove, fresh[Remove4Args], fresh[Remove4Res],
		xdrtest.ForeignStruct[nfsv4.Remove4args](), xdrtest.ForeignUnion(nfsv4.ReadRemove4res),
	},
	{
		OpRename, fresh[Rename4Args], fresh[Rename4Res],
		xdrtest.ForeignStruct[nfsv4.Rename4args](), xdrtest.ForeignUnion(nfsv4.ReadRename4res),
	},
	{
		OpRenew, fresh[Renew4Args], fresh[Renew4Res],
		xdrtest.ForeignStruct[nfsv4.Renew4args](), xdrtest.ForeignStruct[nfsv4.Renew4res](),
	},
	{
		OpRestoreFH, nil, fresh[RestoreFH4Res],
		none, xdrtest.ForeignStruct[nfsv4.Restorefh4res](),
	},
	{
		OpSaveFH, nil, fresh[SaveFH4Res],
		none, xdrtest.ForeignStruct[nfsv4.Savefh4res](),
	},
	{
		OpSecInfo, fresh[SecInfo4Args], fresh[SecInfo4Res],
		xdrtest.ForeignStruct[nfsv4.Secinfo4args](), xdrtest.ForeignUnion(nfsv4.ReadSecinfo4res),
	},
	{
		OpSetattr, fresh[Setattr4Args], fresh[Setattr4Res],
		xdrtest.ForeignStruct[nfsv4.Setattr4args](), xdrtest.ForeignStruct[nfsv4.Setattr4res](),
	},
	{
		OpSetClientID, fresh[SetClientID4Args], fresh[SetClientID4Res],
		xdrtest.ForeignStruct[nfsv4.Setclientid4args](), xdrtest.ForeignUnion(nfsv4.ReadSetclientid4res),
	},
	{
		OpSetClientIDConfirm, fresh[SetClientIDConfirm4Args], fresh[SetClientIDConfirm4Res],
		xdrtest.ForeignStruct[nfsv4.SetclientidConfirm4args](), xdrtest.ForeignStruct[nfsv4.SetclientidConfirm4res](),
	},
	{
		OpVerify, fresh[Verify4Args], fresh[Verify4Res],
		xdrtest.ForeignStruct[nfsv4.Verify4args](), xdrtest.ForeignStruct[nfsv4.Verify4res](),
	},
	{
		OpWrite, fresh[Write4Args], fresh[Write4Res],
		xdrtest.ForeignStruct[nfsv4.Write4args](), xdrtest.ForeignUnion(nfsv4.ReadWrite4res),
	},
	{
		OpReleaseLockOwner, fresh[ReleaseLockOwner4Args], fresh[ReleaseLockOwner4Res],
		xdrtest.ForeignStruct[nfsv4.ReleaseLockowner4args](), xdrtest.ForeignStruct[nfsv4.ReleaseLockowner4res](),
	},
	{
		OpBackchannelCtl, fresh[BackchannelCtl4Args], fresh[BackchannelCtl4Res],
		xdrtest.ForeignStruct[nfsv4.BackchannelCtl4args](), xdrtest.ForeignStruct[nfsv4.BackchannelCtl4res](),
	},
	{
		OpBindConnToSession, fresh[BindConnToSession4Args], fresh[BindConnToSession4Res],
		xdrtest.ForeignStruct[nfsv4.BindConnToSession4args](), xdrtest.ForeignUnion(nfsv4.ReadBindConnToSession4res),
	},
	{
		OpExchangeID, fresh[ExchangeID4Args], fresh[ExchangeID4Res],
		xdrtest.ForeignStruct[nfsv4.ExchangeId4args](), xdrtest.ForeignUnion(nfsv4.ReadExchangeId4res),
	},
	{
		OpCreateSession, fresh[CreateSession4Args], fresh[CreateSession4Res],
		xdrtest.ForeignStruct[nfsv4.CreateSession4args](), xdrtest.ForeignUnion(nfsv4.ReadCreateSession4res),
	},
	{
		OpDestroySession, fresh[DestroySession4Args], fresh[DestroySession4Res],
		xdrtest.ForeignStruct[nfsv4.DestroySession4args](), xdrtest.ForeignStruct[nfsv4.DestroySession4res](),
	},
	{
		OpFreeStateID, fresh[FreeStateID4Args], fresh[FreeStateID4Res],
		xdrtest.ForeignStruct[nfsv4.FreeStateid4args](), xdrtest.ForeignStruct[nfsv4.FreeStateid4res](),
	},
	{
		OpSecInfoNoName, fresh[SecinfoStyle4], fresh[SecInfo4Res],
		xdrtest.ForeignFunc(nfsv4.ReadSecinfoNoName4args, nfsv4.WriteSecinfoNoName4args), xdrtest.ForeignUnion(nfsv4.ReadSecinfo4res),
	},
	{
		OpSequence, fresh[Sequence4Args], fresh[Sequence4Res],
		xdrtest.ForeignStruct[nfsv4.Sequence4args](), xdrtest.ForeignUnion(nfsv4.ReadSequence4res),
	},
	{
		OpSetSSV, fresh[SetSsv4Args], fresh[SetSsv4Res],
		xdrtest.ForeignStruct[nfsv4.SetSsv4args](), xdrtest.ForeignUnion(nfsv4.ReadSetSsv4res),
	},
	{
		OpTestStateID, fresh[TestStateID4Args], fresh[TestStateID4Res],
		xdrtest.ForeignStruct[nfsv4.TestStateid4args](), xdrtest.ForeignUnion(nfsv4.ReadTestStateid4res),
	},
	{
		OpDestroyClientID, fresh[DestroyClientID4Args], fresh[DestroyClientID4Res],
		xdrtest.ForeignStruct[nfsv4.DestroyClientid4args](), xdrtest.ForeignStruct[nfsv4.DestroyClientid4res](),
	},
	{
		OpReclaimComplete, fresh[ReclaimComplete4Args], fresh[ReclaimComplete4Res],
		xdrtest.ForeignStruct[nfsv4.ReclaimComplete4args](), xdrtest.ForeignStruct[nfsv4.ReclaimComplete4res](),
	},
	{
		OpAllocate, fresh[Allocate4Args], fresh[Allocate4Res],
		xdrtest.ForeignStruct[nfsv4.Allocate4args](), xdrtest.ForeignStruct[nfsv4.Allocate4res](),
	},
	{
		OpCopy, fresh[Copy4Args], fresh[Copy4Res],
		xdrtest.ForeignStruct[nfsv4.Copy4args](), xdrtest.ForeignUnion(nfsv4.ReadCopy4res),
	},
	{
		OpCopyNotify, fresh[CopyNotify4Args], fresh[CopyNotify4Res],
		xdrtest.ForeignStruct[nfsv4.CopyNotify4args](), xdrtest.ForeignUnion(nfsv4.ReadCopyNotify4res),
	},
	{
		OpDeallocate, fresh[Deallocate4Args], fresh[Deallocate4Res],
		xdrtest.ForeignStruct[nfsv4.Deallocate4args](), xdrtest.ForeignStruct[nfsv4.Deallocate4res](),
	},
	{
		OpIOAdvise, fresh[IOAdvise4Args], fresh[IOAdvise4Res],
		xdrtest.ForeignStruct[nfsv4.IoAdvise4args](), xdrtest.ForeignUnion(nfsv4.ReadIoAdvise4res),
	},
	{
		OpOffloadCancel, fresh[OffloadCancel4Args], fresh[OffloadCancel4Res],
		xdrtest.ForeignStruct[nfsv4.OffloadCancel4args](), xdrtest.ForeignStruct[nfsv4.OffloadCancel4res](),
	},
	{
		OpOffloadStatus, fresh[OffloadStatus4Args], fresh[OffloadStatus4Res],
		xdrtest.ForeignStruct[nfsv4.OffloadStatus4args](), xdrtest.ForeignUnion(nfsv4.ReadOffloadStatus4res),
	},
	{
		OpReadPlus, fresh[ReadPlus4Args], fresh[ReadPlus4Res],
		xdrtest.ForeignStruct[nfsv4.ReadPlus4args](), xdrtest.ForeignUnion(nfsv4.ReadReadPlus4res),
	},
	{
		OpSeek, fresh[Seek4Args], fresh[Seek4Res],
		xdrtest.ForeignStruct[nfsv4.Seek4args](), xdrtest.ForeignUnion(nfsv4.ReadSeek4res),
	},
	{
		OpClone, fresh[Clone4Args], fresh[Clone4Res],
		xdrtest.ForeignStruct[nfsv4.Clone4args](), xdrtest.ForeignStruct[nfsv4.Clone4res](),
	},
	{
		OpGetXattr, fresh[GetXattr4Args], fresh[GetXattr4Res],
		none, none,
	},
	{
		OpSetXattr, fresh[SetXattr4Args], fresh[SetXattr4Res],
		none, none,
	},
	{
		OpListXattrs, fresh[ListXattrs4Args], fresh[ListXattrs4Res],
		none, none,
	},
	{
		OpRemoveXattr, fresh[RemoveXattr4Args], fresh[RemoveXattr4Res],
		none, none,
	},
	{
		OpIllegal, nil, fresh[Illegal4Res],
		none, xdrtest.ForeignStruct[nfsv4.Illegal4res](),
	},
}

// callbacks lists the operations of CB_COMPOUND that have types.
var callbacks = []operation[CBOpNum]{
	{
		OpCBGetattr, fresh[CBGetattr4Args], fresh[CBGetattr4Res],
		xdrtest.ForeignStruct[nfsv4.CbGetattr4args](), xdrtest.ForeignUnion(nfsv4.ReadCbGetattr4res),
	},
	{
		OpCBRecall, fresh[CBRecall4Args], fresh[CBRecall4Res],
		xdrtest.ForeignStruct[nfsv4.CbRecall4args](), xdrtest.ForeignStruct[nfsv4.CbRecall4res](),
	},
	{
		OpCBRecallAny, fresh[CBRecallAny4Args], fresh[CBRecallAny4Res],
		xdrtest.ForeignStruct[nfsv4.CbRecallAny4args](), xdrtest.ForeignStruct[nfsv4.CbRecallAny4res](),
	},
	{
		OpCBRecallSlot, fresh[CBRecallSlot4Args], fresh[CBRecallSlot4Res],
		xdrtest.ForeignStruct[nfsv4.CbRecallSlot4args](), xdrtest.ForeignStruct[nfsv4.CbRecallSlot4res](),
	},
	{
		OpCBSequence, fresh[CBSequence4Args], fresh[CBSequence4Res],
		xdrtest.ForeignStruct[nfsv4.CbSequence4args](), xdrtest.ForeignUnion(nfsv4.ReadCbSequence4res),
	},
	{
		OpCBNotifyLock, fresh[CBNotifyLock4Args], fresh[CBNotifyLock4Res],
		xdrtest.ForeignStruct[nfsv4.CbNotifyLock4args](), xdrtest.ForeignStruct[nfsv4.CbNotifyLock4res](),
	},
	{
		OpCBOffload, fresh[CBOffload4Args], fresh[CBOffload4Res],
		xdrtest.ForeignStruct[nfsv4.CbOffload4args](), xdrtest.ForeignStruct[nfsv4.CbOffload4res](),
	},
	{
		OpCBIllegal, nil, fresh[CBIllegal4Res],
		none, xdrtest.ForeignStruct[nfsv4.CbIllegal4res](),
	},
}

func fresh[T any, P interface {
	*T
	xdrtest.Value
}]() xdrtest.Value {
	return P(new(T))
}
