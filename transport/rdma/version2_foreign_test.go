package rdma

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// An RDMA2_ERROR whose version is not that of the connection gets no answer, and its credits do not count: they may be those of
// version 1 (V2-71, V2-74).
func TestErrorsOfOtherVersions(t *testing.T) {
	b := newBench(t, benchConfig{server: Config{Version2: true}})
	p := b.peer2()
	p.open()
	for _, version := range []uint32{0, wire.Version1, 9} {
		for _, code := range []wire.ErrorCode2{wire.Err2Vers, wire.Err2VersMismatch, wire.Err2System} {
			q := wire.Prefix2{XID: 0x4444, Version: version, Type: wire.TypeError}
			m := make([]byte, wire.MaxError2Size)
			p.send(m[:wire.ErrorBody2{Code: code, Low: 1, High: 1}.Put(m, q)])
			p.alive()
			if f := versionFault(q); f != faultMismatch {
				t.Errorf("%v of version %d: %v", code, version, f)
			}
		}
	}
}
