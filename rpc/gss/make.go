package gss

import (
	"bytes"
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// A maker serves a call that makes a context (RFC 2203 §5.2.2). The caller is not authenticated.
type maker struct {
	server *Server
	peer   netip.AddrPort
	// on is true if the call continues a half-made context, which still needs tokens of the
	// initiator. handle is the handle of that context.
	on     bool
	handle handle
}

// making has the name and the size limits of a call that makes a context.
var making = rpc.Procedure{
	Name: "RPCSEC_GSS_INIT", MaxArgs: 4 + maxToken,
	MaxResults: 4 + handleSize + 3*4 + 4 + maxReplyToken,
}

// makeLane is the rpc.Outcome.Lane of calls that make contexts. They have a lane of their own,
// because a mechanism computes for long and may wait for files.
type makeLane struct{}

// String returns the lane's name.
func (makeLane) String() string { return "RPCSEC_GSS contexts" }

// verifyMaking checks a call that makes a context. It uses only two fields of the credential: the
// procedure and, for a half-made context, the handle (RFC 2203 §5.2.2).
func (s *Server) verifyMaking(a *rpc.Arrived, c *credential) (rpc.Guard, rpc.Outcome) {
	switch {
	case a.Header.Procedure != nullProcedure:
		return nil, s.badCredential(a, "it makes a context, and is not of procedure NULL")
	case a.Header.Verf.Flavor != rpc.AuthNone || len(a.Header.Verf.Body) > 0:
		return nil, rpc.Denied(rpc.AuthBadVerf)
	}
	m := &maker{server: s, peer: a.Conn.Peer, on: c.proc == procContinueInit}
	if m.on && len(c.handle) == handleSize {
		m.handle = handle(c.handle)
	}
	return m, rpc.Done
}

func (m *maker) Procedure() *rpc.Procedure { return &making }

// Overhead implements rpc.Guard. It reserves the largest size of a verifier, because the size is
// known only when the context is established.
func (m *maker) Overhead() rpc.Overhead { return rpc.Overhead{Verifier: rpc.MaxAuthBytes} }

// Unwrap implements rpc.Guard. The rpc package does not call it for a Handler.
func (m *maker) Unwrap([]byte) (from, to int, ok bool) { return 0, 0, false }

// PutVerifier implements rpc.Guard. It writes the verifier of replies that make no context (RFC
// 2203 §5.2.3.2).
func (m *maker) PutVerifier(w *xdr.Writer) bool {
	w.Uint32(uint32(rpc.AuthNone))
	w.Opaque(nil)
	return true
}

// Wrap implements rpc.Guard. The rpc package does not call it for a Handler.
func (m *maker) Wrap(*xdr.Writer, int) bool { return false }

func (m *maker) Release() {}

func (m *maker) Serve(c *rpc.Call, w *xdr.Writer) rpc.Outcome {
	if c.Try {
		return rpc.WouldBlock(makeLane{})
	}
	token := c.Args.Opaque(maxToken)
	if c.Args.Finish() != nil {
		return rpc.GarbageArgs
	}
	x, res := m.make(token, time.Now())
	if x == nil || x.ctx == nil {
		res.put(w)
		return rpc.Done
	}
	// The verifier signs the window (RFC 2203 §5.2.3.1).
	p := protector{ctx: x.ctx}
	binary.BigEndian.PutUint32(p.number[:], windowSize)
	w.Truncate(rpc.VerifierAt)
	if !p.putVerifier(w, p.number[:]) {
		return rpc.SystemErr
	}
	w.Uint32(uint32(rpc.Success))
	res.put(w)
	return rpc.Done
}

// make passes the initiator's token to the mechanism. It returns the results of the call, and the
// context: established, half made, or nil if it was refused.
func (m *maker) make(token []byte, now time.Time) (*serverContext, initResult) {
	x, err := m.begun(token)
	if err != nil {
		return nil, m.fail(err)
	}
	ctx, reply, err := m.server.step(x, token, now)
	var refusal *Error
	errors.As(err, &refusal)
	switch {
	case refusal != nil && refusal.Major == ContinueNeeded && len(reply) > 0 && len(reply) <= maxReplyToken:
		m.server.note(RefusedToken, m.peer, "", "a token was refused: "+err.Error())
		return m.half(x, reply, now)
	case err != nil:
		return nil, m.fail(err)
	case len(reply) > maxReplyToken:
		return nil, m.fail(&Error{Major: Failure, Text: fmt.Sprintf("the mechanism answers with %d bytes", len(reply))})
	case ctx == nil:
		return m.half(x, reply, now)
	}
	return m.whole(x, ctx, reply, now)
}

// step passes a token to the mechanism. Server.steps limits how many goroutines do so at once: a
// step takes long and any peer may send many tokens, but the processors are also needed for other
// calls.
func (s *Server) step(x *serverContext, token []byte, now time.Time) (Context, []byte, error) {
	s.steps <- struct{}{}
	defer func() { <-s.steps }()
	return x.acceptor.Accept(token, now)
}

// begun returns the context for the token: a new one, or the half-made context that the call
// continues, which it removes from Server.halves.
func (m *maker) begun(token []byte) (*serverContext, error) {
	s := m.server
	if !m.on {
		oid, _ := mechanismOf(token)
		for _, mechanism := range s.cfg.Mechanisms {
			if own := mechanism.OID(); bytes.Equal(own, oid) {
				return &serverContext{acceptor: mechanism.Acceptor(), mechanism: own}, nil
			}
		}
		return nil, &Error{Major: BadMech, Text: "the token is of no mechanism that is served here"}
	}
	x := s.halves.find(m.handle[:])
	if x == nil || !s.halves.remove(x) {
		return nil, &Error{Major: NoContext, Text: "a context that was to be made on is not known"}
	}
	// Return a fresh copy, because other goroutines may still read x.
	return &serverContext{acceptor: x.acceptor, mechanism: x.mechanism}, nil
}

// mechanismOf returns the object identifier of the mechanism that made an initial token (RFC 2743
// §3.1), as the content octets of its DER encoding. ok is false if the header of the token is
// malformed.
func mechanismOf(token []byte) (oid []byte, ok bool) {
	const application0, objectIdentifier = 0x60, 0x06
	var framing, id asn1.RawValue
	if rest, err := asn1.Unmarshal(token, &framing); err != nil || len(rest) > 0 || token[0] != application0 {
		return nil, false
	}
	if _, err := asn1.Unmarshal(framing.Bytes, &id); err != nil || framing.Bytes[0] != objectIdentifier {
		return nil, false
	}
	return id.Bytes, len(id.Bytes) > 0
}

// half stores in Server.halves a context that needs another token of the initiator.
func (m *maker) half(x *serverContext, reply []byte, now time.Time) (*serverContext, initResult) {
	x.expiry = now.Add(halfLife)
	m.server.halves.add(x, m.peer.Addr(), now)
	m.server.keep()
	return x, initResult{handle: x.handle[:], major: ContinueNeeded, window: windowSize, token: reply}
}

// whole stores an established context in Server.contexts, so that calls can use it. It refuses a
// context that has already expired.
func (m *maker) whole(x *serverContext, ctx Context, reply []byte, now time.Time) (*serverContext, initResult) {
	s := m.server
	x.acceptor, x.ctx, x.principal, x.own, x.expiry = nil, ctx, ctx.Principal(), ctx.Own(), ctx.Expiry()
	if !now.Before(x.expiry) {
		return nil, m.fail(&Error{Major: CredentialsExpired, Text: fmt.Sprintf("the ticket of %s ended at %v", x.principal, x.expiry)})
	}
	x.who = s.identify(x.principal, now)
	switch id := x.who.id.Load(); {
	case id.unsure(now):
		s.note(Unidentified, m.peer, x.principal, "who a caller is here cannot be looked up: its calls are delayed until it can")
	case !id.known:
		s.note(UnknownPrincipal, m.peer, x.principal, "a caller has no user here, and acts as the anonymous one, unless an export refuses it")
	}
	if n := s.contexts.add(x, m.peer.Addr(), now); n > 0 {
		s.count.refused[Evicted].Add(uint64(n - 1))
		s.note(Evicted, m.peer, x.principal, fmt.Sprintf("%d contexts had to make room for another", n))
	}
	s.count.made.Add(1)
	s.keep()
	return x, initResult{handle: x.handle[:], major: Complete, window: windowSize, token: reply}
}

// fail counts the refusal, and returns the results that report it to the initiator. They have no
// handle and no token, even if the mechanism made a token with an explanation (RFC 2203 §5.2.3.1).
func (m *maker) fail(err error) initResult {
	e := &Error{Major: Failure, Text: err.Error()}
	errors.As(err, &e)
	if e.Major == Complete || e.Major == ContinueNeeded {
		e = &Error{Major: Failure, Minor: e.Minor, Text: e.Text}
	}
	m.server.note(reasonOf(e.Major), m.peer, "", "a context was refused: "+err.Error())
	return initResult{major: e.Major, minor: e.Minor}
}

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
