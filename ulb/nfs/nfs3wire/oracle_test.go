package nfs3wire

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr/xdrtest"
)

// go-xdr decodes what this package encodes to the same values, and the reverse, for the
// arguments and results of every procedure and every arm of every union. The values are also
// the same if eligible items arrive separately from the stream (conformance row V1-35).
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

// The table of procedures contains every procedure except NULL.
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
