package nfs3wire

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr/xdrtest"
)

// Every procedure's arguments and results mean to go-xdr what they mean to us,
// in both directions, on every arm of every union; V1-35: and decode the same
// where their eligible items came beside the stream.
func TestOracle(t *testing.T) {
	for _, p := range procedures {
		t.Run(p.proc.String()+"/args", rapid.MakeCheck(func(t *rapid.T) {
			xdrtest.CheckForeign(t, p.args, p.argsOracle)
		}))
		t.Run(p.proc.String()+"/res", rapid.MakeCheck(func(t *rapid.T) {
			xdrtest.CheckForeign(t, p.res, p.resOracle)
		}))
	}
}

// The table above leaves out nothing but NULL.
func TestEveryProcedureIsTested(t *testing.T) {
	tested := map[Procedure]bool{ProcNull: true}
	for _, p := range procedures {
		tested[p.proc] = true
	}
	for p := range namesProcedure {
		if !tested[p] {
			t.Errorf("%v is not in the table", p)
		}
	}
	if len(tested) != 22 {
		t.Errorf("%d procedures, RFC 1813 has 22", len(tested))
	}
}
