package rpc

import "github.com/nfsrdmad/nfsrdmad/rpc/xdr"

// A Protection is one authentication flavor. It works between a call's header and its arguments.
// AUTH_NONE and AUTH_SYS are built in; Server.Protect adds others.
type Protection interface {
	// Verify checks the caller by the header alone (RFC 5531 §8.2), and fills in a.Cred. Done
	// accepts the call; Denied refuses it with a reason; Dropped and DropAndEnd give no answer.
	// The Guard protects this call and its reply. If it is nil, arguments and results are not
	// protected, and the reply's verifier is AUTH_NONE. It is nil if the outcome is not Done.
	// Verify may be called from many goroutines at once and must not block.
	Verify(a *Arrived) (Guard, Outcome)
}

// A Guard protects one call and its reply. The rpc package calls one method at a time, from
// several goroutines.
type Guard interface {
	// Overhead returns the size of the protection. It is constant.
	Overhead() Overhead
	// Unwrap removes the protection from the arguments in place: afterwards body[from:to] holds
	// the program's arguments. If it returns false, the arguments were changed on their way or
	// are malformed, and the answer is GARBAGE_ARGS. It is called once, if Overhead.Wraps is set.
	// It may compute for as long as the arguments require, but must not wait.
	Unwrap(body []byte) (from, to int, ok bool)
	// PutVerifier writes the verifier of an accepted reply, flavor and body. If it returns false,
	// no reply is sent.
	PutVerifier(w *xdr.Writer) bool
	// Wrap protects the results in place. They start at byte from of the words of w, after
	// Overhead.Before bytes that Wrap fills in; Wrap may append up to Overhead.Behind bytes. With
	// Overhead.Rewrites it may change the bytes of the payloads. If it returns false, the results
	// are not sent, because nothing may leave without its protection.
	Wrap(w *xdr.Writer, from int) bool
	// Release ends the use of the Guard. It is called once.
	Release()
}

// Overhead is the size that a Guard adds to a call and its reply, in bytes.
type Overhead struct {
	// Verifier is the longest body of a reply's verifier, padding included.
	Verifier int
	// Wraps: arguments and results are protected. Then no item travels beside the message (RFC
	// 8166 §8.2.2), and the program judges the call only after Unwrap.
	Wraps bool
	// Before and Behind are the room that Wrap needs before and after the results, in multiples
	// of four.
	Before, Behind int
	// Rewrites: Wrap changes the bytes of payloads. The rpc package first copies the payloads
	// that are not in the call's own memory.
	Rewrites bool
}

// A Handler is a Guard that serves the call itself, instead of the program. A flavor uses it for
// its own calls, such as the creation of a context. Such a call is neither unwrapped nor wrapped.
type Handler interface {
	Guard
	// Procedure returns bounds for the call, like a row of a Binding.
	Procedure() *Procedure
	// Serve is like Service.Serve. If it has a better verifier than that of PutVerifier, it
	// truncates w to VerifierAt, and writes verifier, SUCCESS and results anew.
	Serve(c *Call, w *xdr.Writer) Outcome
}

// protections are the flavors served. The map is immutable: a change replaces it.
type protections map[Flavor]Protection

// Protect adds p for a flavor, or replaces the flavor's Protection.
func (s *Server) Protect(f Flavor, p Protection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := protections{f: p}
	for f, p := range *s.protections.Load() {
		if _, again := now[f]; !again {
			now[f] = p
		}
	}
	s.protections.Store(&now)
}

// verify lets the Protection of the call's flavor check the caller.
func (s *Server) verify(c *Call) Outcome {
	switch f := c.Header.Cred.Flavor; f {
	case AuthNone:
		return verifyNone(&c.Arrived)
	case AuthSys:
		return verifySys(&c.Arrived)
	default:
		p := (*s.protections.Load())[f]
		if p == nil {
			return Denied(AuthRejectedCred)
		}
		return s.verifyBy(p, c)
	}
}

func (s *Server) verifyBy(p Protection, c *Call) (out Outcome) {
	defer s.caught(c, &out)
	c.Cred.reset(c.Header.Cred.Flavor)
	g, out := p.Verify(&c.Arrived)
	c.state.guard = g
	if g != nil {
		c.state.overhead = g.Overhead()
	}
	return out
}

// maxUnwrapAtOnce is the longest message, in bytes, that the receiving goroutine unwraps itself,
// and the longest payload of results that it wraps itself. The next calls of the connection wait
// meanwhile.
const maxUnwrapAtOnce = 64 << 10

// wrapsMuch reports that wrapping the results may take long.
func (st *callState) wrapsMuch() bool {
	return st.overhead.Wraps && st.plan.Results > maxUnwrapAtOnce
}

// unwrap removes the protection from the arguments.
func (s *Server) unwrap(c *Call) (ok bool) {
	defer s.failed(c, &ok)
	st := &c.state
	st.sealed = false
	body := c.Message[c.Header.Size:]
	from, to, ok := st.guard.Unwrap(body)
	if !ok || from < 0 || to < from || to > len(body) {
		return false
	}
	st.from, st.behind = from, len(body)-to
	return true
}

// body returns the arguments at their current place.
func (c *Call) body() []byte {
	return c.Message[c.Header.Size+c.state.from : len(c.Message)-c.state.behind]
}

// putAccepted writes the header of an accepted reply with the verifier of the call's flavor. It
// returns false if there is no verifier.
func (c *Call) putAccepted(w *xdr.Writer, stat AcceptStat) bool {
	g := c.state.guard
	if g == nil {
		PutAccepted(w, c.Header.XID, stat)
		return true
	}
	w.Uint32(c.Header.XID)
	w.Uint32(uint32(TypeReply))
	w.Uint32(uint32(msgAccepted))
	if !g.PutVerifier(w) {
		return false
	}
	w.Uint32(uint32(stat))
	return true
}

// putResultsHeader writes everything before the results.
func (c *Call) putResultsHeader(w *xdr.Writer) bool {
	ok := c.putAccepted(w, Success)
	if n := c.state.overhead.Before; n > 0 {
		w.Reserve(n)
	}
	c.state.results = w.Len()
	return ok
}

// wrap protects the results.
func (s *Server) wrap(c *Call, w *xdr.Writer) (ok bool) {
	st := &c.state
	if !st.overhead.Wraps {
		return true
	}
	defer s.failed(c, &ok)
	if st.overhead.Rewrites {
		c.ownPayloads(w)
	}
	return st.guard.Wrap(w, st.results) && !w.Overflow()
}

// ownPayloads copies payloads that others may also use: pages of a file that several replies
// refer to, or a kept reply.
func (c *Call) ownPayloads(w *xdr.Writer) {
	all := w.Payloads()
	for i := range all {
		p := &all[i]
		if c.Memory != nil && p.Ref == xdr.Releaser(c.Memory) {
			continue
		}
		p.Data = append([]byte(nil), p.Data...)
		if p.Ref != nil {
			p.Ref.Release()
			p.Ref = nil
		}
	}
}
