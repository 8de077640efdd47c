package gss

import (
	"net/netip"
	"sync"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// A guard is the rpc.Guard of one call under an established context.
type guard struct {
	protector
	server *Server
	x      *serverContext
	peer   netip.AddrPort
}

var guards = sync.Pool{New: func() any { return &guard{protector: protector{pieces: make([][]byte, 0, 8)}} }}

func takeGuard() *guard { return guards.Get().(*guard) }

func (g *guard) Release() {
	g.clear()
	g.server, g.x = nil, nil
	guards.Put(g)
}

func (g *guard) Overhead() rpc.Overhead { return g.overhead() }

// PutVerifier implements rpc.Guard. The verifier is the checksum of the call's sequence number
// (RFC 2203 §5.3.3.2).
func (g *guard) PutVerifier(w *xdr.Writer) bool { return g.putVerifier(w, g.number[:]) }

func (g *guard) Unwrap(body []byte) (from, to int, ok bool) {
	if from, to, ok = g.unwrap(body); !ok {
		g.server.note(BadBody, g.peer, g.x.principal, "the protection of a call's arguments does not come off")
	}
	return from, to, ok
}

func (g *guard) Wrap(w *xdr.Writer, from int) bool { return g.wrap(w, from) }

// A destroyer serves RPCSEC_GSS_DESTROY (RFC 2203 §5.4). The call is already verified.
type destroyer struct{ *guard }

// destroying has the name and the size limits of RPCSEC_GSS_DESTROY. The call has no arguments;
// MaxArgs is for the bytes that the protection adds to an empty body.
var destroying = rpc.Procedure{Name: "RPCSEC_GSS_DESTROY", MaxArgs: 1024, MaxResults: 0}

func (d *destroyer) Procedure() *rpc.Procedure { return &destroying }

// Serve implements rpc.Handler. Calls that are already verified continue.
func (d *destroyer) Serve(*rpc.Call, *xdr.Writer) rpc.Outcome {
	d.x.destroyed.Store(true)
	if d.server.contexts.remove(d.x) {
		d.server.count.destroyed.Add(1)
	}
	return rpc.Done
}
