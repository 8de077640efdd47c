package gss

import (
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// A destroyer serves RPCSEC_GSS_DESTROY (RFC 2203 §5.4). The call is already verified.
type destroyer struct{ *guard }

// destroying has the name and the size limits of RPCSEC_GSS_DESTROY. The call has no arguments;
// MaxArgs is for the bytes that the protection adds to an empty body.
var destroying = rpc.Procedure{Name: "RPCSEC_GSS_DESTROY", MaxArgs: 1024, MaxResults: 0}

// Procedure implements rpc.Handler.
func (d *destroyer) Procedure() *rpc.Procedure { return &destroying }

// Serve implements rpc.Handler. Calls that are already verified continue.
func (d *destroyer) Serve(*rpc.Call, *xdr.Writer) rpc.Outcome {
	d.x.destroyed.Store(true)
	if d.server.contexts.remove(d.x) {
		d.server.count.destroyed.Add(1)
	}
	return rpc.Done
}
