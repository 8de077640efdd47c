package nfs4wire

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr/xdrtest"
)

// go-xdr decodes what this package encodes to the same values, and the reverse, for the
// arguments and results of every operation and every arm of every union. The values are also
// the same if eligible items arrive separately from the stream (conformance row V1-35). If
// go-xdr does not have a type, the test decodes what it encoded.
func TestOracle(t *testing.T) {
	checkAll(t, operations)
	checkAll(t, callbacks)
}

func checkAll[N OpNum | CBOpNum](t *testing.T, all []operation[N]) {
	for _, o := range all {
		if o.args != nil {
			t.Run(any(o.op).(interface{ String() string }).String()+"/args", check(o.args, o.argsOracle))
		}
		t.Run(any(o.op).(interface{ String() string }).String()+"/res", check(o.res, o.resOracle))
	}
}

func check(fresh func() xdrtest.Value, theirs xdrtest.Foreign) func(*testing.T) {
	return rapid.MakeCheck(func(t *rapid.T) {
		if theirs.Read == nil {
			xdrtest.Check(t, fresh)
		} else {
			xdrtest.CheckForeign(t, fresh, theirs)
		}
	})
}

// open4Args and open4Res are the types of OPEN without the kinds of delegation that RFC 9754
// adds, because go-xdr does not have these.
type open4Args struct{ Open4Args }

func (v *open4Args) DrawExternal(t *rapid.T) {
	xdrtest.Draw(t, &v.Open4Args)
	v.Claim.DelegateType = before9754[v.Claim.DelegateType]
}

func (v *open4Args) ExternalLeaves() []any { return xdrtest.Leaves(&v.Open4Args) }

type open4Res struct{ Open4Res }

func (v *open4Res) DrawExternal(t *rapid.T) {
	xdrtest.Draw(t, &v.Open4Res)
	v.ResOK.Delegation.DelegationType = before9754[v.ResOK.Delegation.DelegationType]
}

func (v *open4Res) ExternalLeaves() []any { return xdrtest.Leaves(&v.Open4Res) }

// before9754 maps each kind of delegation to the kind of RFC 8881 that has the same arm.
var before9754 = map[OpenDelegationType4]OpenDelegationType4{
	OpenDelegateNone:            OpenDelegateNone,
	OpenDelegateRead:            OpenDelegateRead,
	OpenDelegateWrite:           OpenDelegateWrite,
	OpenDelegateNoneExt:         OpenDelegateNoneExt,
	OpenDelegateReadAttrsDeleg:  OpenDelegateRead,
	OpenDelegateWriteAttrsDeleg: OpenDelegateWrite,
}

// The delegations of RFC 9754 are encoded like those of RFC 8881.
func TestDelegationsWithTimestamps(t *testing.T) {
	t.Run("args", check(fresh[Open4Args], none))
	t.Run("res", check(fresh[Open4Res], none))
}

// go-xdr has none of the attributes of later RFCs, so they are decoded only here.
func TestLaterAttributes(t *testing.T) {
	t.Run("mode_umask", check(fresh[ModeUmask4], none))
	t.Run("open_arguments", check(fresh[OpenArguments4], none))
}

// The table of operations contains all operations except those that this server never uses.
func TestEveryOperationIsTested(t *testing.T) {
	without := map[OpNum]bool{
		OpGetDirDelegation: true, OpGetdeviceinfo: true, OpGetdevicelist: true, OpLayoutcommit: true,
		OpLayoutget: true, OpLayoutreturn: true, OpWantDelegation: true,
		OpLayouterror: true, OpLayoutstats: true, OpWriteSame: true,
	}
	for _, o := range operations {
		without[o.op] = true
	}
	for op := range namesOpNum {
		if !without[op] {
			t.Errorf("%v is not in the table", op)
		}
	}
	withoutCallbacks := map[CBOpNum]bool{
		OpCBLayoutrecall: true, OpCBNotify: true, OpCBPushDeleg: true, OpCBRecallableObjAvail: true,
		OpCBWantsCancelled: true, OpCBNotifyDeviceid: true,
	}
	for _, o := range callbacks {
		withoutCallbacks[o.op] = true
	}
	for op := range namesCBOpNum {
		if !withoutCallbacks[op] {
			t.Errorf("%v is not in the table", op)
		}
	}
}
