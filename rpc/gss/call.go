package gss

import (
	"net/netip"
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// Verify implements rpc.Protection.
func (s *Server) Verify(a *rpc.Arrived) (rpc.Guard, rpc.Outcome) {
	var c credential
	switch err := c.parse(a.Header.Cred.Body); {
	case err == errVersion:
		return nil, s.otherVersion(a, &c)
	case err != nil:
		return nil, s.badCredential(a, "its credential is malformed")
	}
	switch c.proc {
	case procData, procDestroy:
		return s.verifyCall(a, &c)
	case procInit, procContinueInit:
		return s.verifyMaking(a, &c)
	}
	return nil, s.badCredential(a, "its credential has a procedure that RFC 2203 does not have")
}

// otherVersion refuses a call under another version of RPCSEC_GSS than 1. The reason is
// AUTH_BADCRED if the call names a context of this server (RFC 2203 §5.3.3.3), else
// AUTH_REJECTEDCRED (§5.2.3.2).
func (s *Server) otherVersion(a *rpc.Arrived, c *credential) rpc.Outcome {
	s.note(OtherVersion, a.Conn.Peer, "", "a call under another version of RPCSEC_GSS than 1")
	if s.contexts.find(c.handle) != nil {
		return rpc.Denied(rpc.AuthBadCred)
	}
	return rpc.Denied(rpc.AuthRejectedCred)
}

func (s *Server) badCredential(a *rpc.Arrived, cause string) rpc.Outcome {
	s.note(BadCredential, a.Conn.Peer, "", "a call was refused: "+cause)
	return rpc.Denied(rpc.AuthBadCred)
}

// signedHeader returns the part of a call that its verifier signs: everything from the XID to the
// end of the credential (RFC 2203 §5.3.1).
func signedHeader(a *rpc.Arrived) []byte {
	n := len(a.Header.Verf.Body)
	return a.Message[:a.Header.Size-2*4-n-xdr.Pad(n)]
}

// verifyCall checks a call under a context: first the handle and the header's checksum, and only
// then the content of the header (RFC 2203 §5.3.3.1, §5.4).
func (s *Server) verifyCall(a *rpc.Arrived, c *credential) (rpc.Guard, rpc.Outcome) {
	if !goodService(c.service) {
		return nil, s.badCredential(a, "its credential asks for a service that RFC 2203 does not have")
	}
	x := s.contexts.find(c.handle)
	if x == nil {
		s.note(UnknownHandle, a.Conn.Peer, "", "a call names a context that is not known: the client makes another")
		return nil, rpc.Denied(rpc.GSSCredProblem)
	}
	g := takeGuard()
	g.set(x.ctx, c.service, c.seq)
	if a.Header.Verf.Flavor != rpc.AuthGSS || !g.verify(a.Header.Verf.Body, signedHeader(a)) {
		g.Release()
		s.note(BadHeader, a.Conn.Peer, x.principal, "the checksum of a call's header is wrong")
		return nil, rpc.Denied(rpc.GSSCredProblem)
	}
	now := time.Now()
	if out := s.admit(a, c, x, now); out != rpc.Done {
		g.Release()
		return nil, out
	}
	x.touch(now)
	a.Cred.Principal, a.Cred.Target, a.Cred.Mechanism, a.Cred.GSS = x.principal, x.own, x.mechanism, c.service
	x.who.id.Load().fill(&a.Cred, now)
	if s.outdated(x.who, now) {
		s.lookUp(x.who)
	}
	s.count.calls.Add(1)
	g.server, g.x, g.peer = s, x, a.Conn.Peer
	if c.proc == procDestroy {
		return &destroyer{g}, rpc.Done
	}
	return g, rpc.Done
}

// admit checks a call whose header checksum is right: its sequence number, the expiry of its
// context, and that a call that destroys the context is of procedure NULL.
func (s *Server) admit(a *rpc.Arrived, c *credential, x *serverContext, now time.Time) rpc.Outcome {
	switch {
	case c.seq > maxSeq:
		s.note(SeqExhausted, a.Conn.Peer, x.principal, "a context has had all its sequence numbers: the client makes another")
		return rpc.Denied(rpc.GSSCtxProblem)
	case !now.Before(x.expiry):
		if s.contexts.remove(x) {
			s.count.expired.Add(1)
		}
		s.note(Stale, a.Conn.Peer, x.principal, "a context's ticket has ended: the client makes another")
		return rpc.Denied(rpc.GSSCtxProblem)
	case c.proc == procDestroy && a.Header.Procedure != nullProcedure:
		return s.badCredential(a, "it destroys a context, and is not of procedure NULL")
	}
	switch x.window.see(c.seq) {
	case repeated:
		s.note(Replayed, a.Conn.Peer, x.principal, "a call came again under its sequence number, and was dropped")
		return rpc.Dropped
	case below:
		s.note(BelowWindow, a.Conn.Peer, x.principal, "a call came under a sequence number that is too old, and was dropped with its connection")
		return rpc.DropAndEnd
	}
	return rpc.Done
}

// windowSize is the largest number of outstanding calls under one context (RFC 2203 §5.3.3.1), over
// all connections of the client together.
const windowSize = 1024

// A window records which of the last windowSize sequence numbers were used under a context. In the
// zero window, no number is recorded.
type window struct {
	mu   sync.Mutex
	high uint32                  // the largest number seen
	seen [windowSize / 64]uint64 // a bit for each number, modulo windowSize
}

// A sighting is the result of window.see.
type sighting uint8

const (
	fresh sighting = iota
	repeated
	below // older than the window
)

// see returns whether the number n is fresh (new), repeated, or below the window. It records a
// fresh number.
func (w *window) see(n uint32) sighting {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n > w.high {
		w.advance(n)
	} else if w.high-n >= windowSize {
		return below
	}
	word, bit := &w.seen[n%windowSize/64], uint64(1)<<(n%64)
	if *word&bit != 0 {
		return repeated
	}
	*word |= bit
	return fresh
}

// advance moves the window forward to n.
func (w *window) advance(n uint32) {
	if n-w.high >= windowSize {
		clear(w.seen[:])
	} else {
		for i := w.high + 1; i != n+1; i++ {
			w.seen[i%windowSize/64] &^= 1 << (i % 64)
		}
	}
	w.high = n
}

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
