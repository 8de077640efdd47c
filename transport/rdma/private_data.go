package rdma

import (
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// encoded is p as it is sent.
func encoded(p wire.PrivateData) []byte {
	b := make([]byte, wire.PrivateDataSize)
	p.Put(b)
	return b
}

// invalidates says whether a Provider or Listener can take part in remote
// invalidation, as far as it tells before there is a connection: only one that
// can may be advertised as doing so (RFC 8797 §3.2).
func invalidates(device any) bool {
	l, ok := device.(interface{ Limits() rdmacm.Limits })
	return !ok || l.Limits().RemoteInvalidation
}
