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

// Release implements rpc.Guard.
func (g *guard) Release() {
	g.clear()
	g.server, g.x = nil, nil
	guards.Put(g)
}

// Overhead implements rpc.Guard.
func (g *guard) Overhead() rpc.Overhead { return g.overhead() }

// PutVerifier implements rpc.Guard. The verifier is the checksum of the call's sequence number
// (RFC 2203 §5.3.3.2).
func (g *guard) PutVerifier(w *xdr.Writer) bool { return g.putVerifier(w, g.number[:]) }

// Unwrap implements rpc.Guard.
func (g *guard) Unwrap(body []byte) (from, to int, ok bool) {
	if from, to, ok = g.unwrap(body); !ok {
		g.server.note(BadBody, g.peer, g.x.principal, "the protection of a call's arguments does not come off")
	}
	return from, to, ok
}

// Wrap implements rpc.Guard.
func (g *guard) Wrap(w *xdr.Writer, from int) bool { return g.wrap(w, from) }
