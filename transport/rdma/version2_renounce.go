package rdma

import (
	"errors"
	"fmt"

	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// errRefused2 is why this side ends a connection whose peer refuses version 2, or a header type that calls need.
var errRefused2 = errors.New("rdma: the peer refuses version 2 of RPC-over-RDMA on this connection")

// renounce handles an RDMA2_ERROR that refuses more than one call: the version of the connection (§7.1.1, §7.1.2), or a
// header type (§7.1.3). It returns false for other errors. This side must not send what was refused on this connection
// again, and version 2 does not work without it: the version cannot change any more (§4.3.3), and each peer has to support
// all header types (§6.1). So a client ends the connection, and connects again with version 1 (versionMemory). With
// ERR_VERS and INVAL_HTYPE the refused call ends with an error. Otherwise it goes out again on the next connection, like
// all calls under way. A server only makes no further calls if a header type was refused, because the client's calls can
// go on.
func (v *version2) renounce(m *inbound, code wire.ErrorCode2, about refusedKind) bool {
	k := v.k
	switch {
	case k.dialed && code == wire.Err2VersMismatch:
	case k.dialed && code == wire.Err2InvalHtype && m.xid == 0: // a grant (§6.3.2)
	case about != refusedCall, code != wire.Err2Vers && code != wire.Err2VersMismatch && code != wire.Err2InvalHtype:
		return false
	case code == wire.Err2InvalHtype && !k.dialed:
		v.mu.Lock()
		v.callsRefused = true
		v.mu.Unlock()
		return false
	}
	q := k.requester
	q.mu.Lock()
	q.dying = true // the end of the call must not let another one begin
	q.mu.Unlock()
	if k.versionRefused != nil {
		k.versionRefused()
	}
	if code != wire.Err2VersMismatch && q.end(m) {
		k.stats.Refused.Add(1)
	}
	m.recv.Release()
	k.endConnection(faultRefused, fmt.Errorf("%w: %v", errRefused2, code))
	return true
}
