package client

import (
	"bytes"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// backContexts is the largest number of RPCSEC_GSS contexts under which a session accepts
// callbacks. They are the contexts of its connections, and of connections that have ended.
const backContexts = 16

// offer returns conn's context as an offer for callbacks, or nil if conn has no context (RFC 8881
// §18.36.3).
func (s *Session) offer(conn *Conn) *nfs4wire.GSSCBHandles4 {
	if conn.secured == nil {
		return nil
	}
	theirs, ours := s.protected.Adopt(conn.secured.client)
	s.mu.Lock()
	s.offered = theirs
	s.mu.Unlock()
	return &nfs4wire.GSSCBHandles4{
		Service: nfs4wire.GSSService(conn.secured.service), HandleFromServer: theirs, HandleFromClient: ours,
	}
}

// offerArgs are the arguments of CREATE_SESSION or BACKCHANNEL_CTL. They list the security flavors
// that the server may use for callbacks: if back is not nil, only RPCSEC_GSS, with the context in
// back; otherwise AUTH_SYS, as user 0, and AUTH_NONE.
type offerArgs struct {
	args interface {
		EncodeHead(w *xdr.Writer) // what precedes the list
		EncodeTail(w *xdr.Writer)
	}
	back *nfs4wire.GSSCBHandles4
}

// Encode writes the arguments to w.
func (a *offerArgs) Encode(w *xdr.Writer) {
	offers := []nfs4wire.CallbackSecParms4{
		{Secflavor: nfs4wire.AuthSys, SysCred: nfs4wire.AuthsysParms{Machinename: []byte("nfsrdmad")}},
		{Secflavor: nfs4wire.AuthNone},
	}
	if a.back != nil {
		offers = []nfs4wire.CallbackSecParms4{{Secflavor: nfs4wire.RPCSECGSS, GSSHandles: *a.back}}
	}
	a.args.EncodeHead(w)
	w.Uint32(uint32(len(offers)))
	for i := range offers {
		offers[i].Encode(w)
	}
	a.args.EncodeTail(w)
}

// offerAgain offers the server another context for callbacks, if the one offered before has ended
// (RFC 8881 §18.33). It does not wait for the reply. If the server refuses, the keeper's next
// call of offerAgain makes another offer.
func (s *Session) offerAgain() {
	conn := s.unoffered()
	if conn == nil {
		return
	}
	args := &offerArgs{&nfs4wire.BackchannelCtl4Args{CBProgram: callbackProgram}, s.offer(conn)}
	s.Start(&Compound{
		Ops: []Op{{Number: nfs4wire.OpBackchannelCtl, Args: args}},
		Done: func(c *Compound) {
			if c.Err == nil {
				return
			}
			s.mu.Lock()
			if bytes.Equal(s.offered, args.back.HandleFromServer) {
				s.offered = nil
			}
			s.mu.Unlock()
		},
	})
}

// unoffered returns a connection whose RPCSEC_GSS context s should offer for callbacks. It returns
// nil if a connection still has the context that was offered last, or if no connection has a context.
func (s *Session) unoffered() (found *Conn) {
	s.mu.Lock()
	offered := s.offered
	s.mu.Unlock()
	for _, c := range s.conns(nil) {
		switch {
		case c.secured == nil:
		case bytes.Equal(c.secured.client.Handle(), offered):
			return nil
		default:
			found = c
		}
	}
	return found
}
