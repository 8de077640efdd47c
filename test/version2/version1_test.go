package version2

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/rawpeer"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// A server without version 2 answers the first message of a client of version 2 with ERR_VERS, and the XID and the
// version of that message. The client may go on with version 1. Row V2-15 of docs/conformance.md.
func TestServerWithoutVersion2(t *testing.T) {
	p := newResponder(t, rdma.Config{}).dial(t)
	p.send(rawpeer.Hex(t, `0badcafe 00000002 00000020 00000007 00000003 00000001 00000004 00010000
		00000002 00000004 00010000 00000005 00000004 00000001`))
	p.wantError(0x0badcafe, wire.Version2, wire.ErrorBody2{Code: wire.Err2Vers, Low: 1, High: 1})
	p.send(append(rawpeer.Hex(t, `00000007 00000001 00000020 00000000 00000000 00000000 00000000`), bump(7)...))
	got := p.receive()
	var h wire.Header
	if err := h.Parse(got); err != nil || h.XID != 7 || h.Version != wire.Version1 || h.Proc != wire.ProcMsg {
		t.Errorf("got %x, %v, want a reply of version 1", got, err)
	}
}
