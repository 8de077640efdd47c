package nfs4test

import (
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

func into[T any, P interface {
	*T
	Decode(*xdr.Decoder)
}](d *xdr.Decoder) {
	var v T
	P(&v).Decode(d)
}

// bodies has, for each operation, a function that skips the part of a result that follows the
// status NFS4_OK. Operations without such a part have none.
var bodies = map[wire.OpNum]func(d *xdr.Decoder){
	wire.OpAccess: into[wire.Access4ResOK], wire.OpClose: into[wire.StateID4], wire.OpCommit: into[wire.Commit4ResOK],
	wire.OpCreate: into[wire.Create4ResOK], wire.OpGetattr: into[wire.Getattr4ResOK], wire.OpGetFH: into[wire.GetFH4ResOK],
	wire.OpLink: into[wire.Link4ResOK], wire.OpLock: into[wire.Lock4ResOK], wire.OpLocku: into[wire.StateID4],
	wire.OpOpen: into[wire.Open4ResOK], wire.OpOpenConfirm: into[wire.OpenConfirm4ResOK], wire.OpOpenDowngrade: into[wire.OpenDowngrade4ResOK],
	wire.OpRead: into[wire.Read4ResOK], wire.OpReaddir: into[wire.Readdir4ResOK], wire.OpReadlink: into[wire.Readlink4ResOK],
	wire.OpRemove: into[wire.Remove4ResOK], wire.OpRename: into[wire.Rename4ResOK], wire.OpSecInfo: into[wire.SecInfo4ResOK],
	wire.OpSetattr: into[wire.Bitmap4], wire.OpSetClientID: into[wire.SetClientID4ResOK], wire.OpWrite: into[wire.Write4ResOK],
	wire.OpBindConnToSession: into[wire.BindConnToSession4ResOK], wire.OpExchangeID: into[wire.ExchangeID4ResOK],
	wire.OpCreateSession: into[wire.CreateSession4ResOK], wire.OpSecInfoNoName: into[wire.SecInfo4ResOK],
	wire.OpSequence: into[wire.Sequence4ResOK], wire.OpSetSSV: into[wire.SetSsv4ResOK], wire.OpTestStateID: into[wire.TestStateID4ResOK],
	wire.OpCopy: into[wire.Copy4ResOK], wire.OpIOAdvise: into[wire.IOAdvise4ResOK], wire.OpReadPlus: into[wire.ReadPlusRes4], wire.OpSeek: into[wire.SeekRes4],
	wire.OpGetXattr: func(d *xdr.Decoder) { d.Opaque(xdr.NoLimit) }, wire.OpSetXattr: into[wire.ChangeInfo4],
	wire.OpListXattrs: into[wire.ListXattrs4ResOK], wire.OpRemoveXattr: into[wire.ChangeInfo4],
}

// skipResult skips the part of a result that follows the status.
func skipResult(d *xdr.Decoder, op wire.OpNum, s wire.NFSStat4) {
	switch {
	case op == wire.OpSetattr:
		into[wire.Bitmap4](d)
	case s == wire.NFS4ErrDenied && (op == wire.OpLock || op == wire.OpLockt):
		into[wire.Lock4Denied](d)
	case s == wire.NFS4ErrClIDInUse && op == wire.OpSetClientID:
		into[wire.NetAddr4](d)
	case s == wire.NFS4OK && bodies[op] != nil:
		bodies[op](d)
	}
}
