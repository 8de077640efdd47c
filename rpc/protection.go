package rpc

import "github.com/nfsrdmad/nfsrdmad/rpc/xdr"

// A Protection is one authentication flavor: it stands between a call's header and
// its arguments. AUTH_NONE and AUTH_SYS are built in; Server.Protect adds others.
type Protection interface {
	// Verify judges the caller, from the header alone (RFC 5531 §8.2), and fills in
	// a.Cred. Done lets the call go on. Denied says why not; Dropped and
	// DropAndEnd answer nothing. The Guard is what protects this call and its
	// reply; nil is none: arguments and results travel as they are, and the
	// reply's verifier is AUTH_NONE. Where the outcome is not Done the Guard is
	// nil. It may be called from many goroutines at once and must not block.
	Verify(a *Arrived) (Guard, Outcome)
}

// A Guard protects one call and its reply. The rpc package calls its methods one at
// a time, from several goroutines.
type Guard interface {
	// Overhead is what the protection adds. It does not change.
	Overhead() Overhead
	// Unwrap takes the protection off the arguments in place: afterwards
	// body[from:to] are the arguments as the program defines them. It is false
	// where they were tampered with or are not what the flavor defines: the call
	// is answered GARBAGE_ARGS. It is called once, where Overhead.Wraps is set.
	// It may take as long as the arguments are long, and does not wait.
	Unwrap(body []byte) (from, to int, ok bool)
	// PutVerifier writes the verifier of an accepted reply, flavor and body. Where
	// it is false the reply is not sent at all.
	PutVerifier(w *xdr.Writer) bool
	// Wrap puts the protection on the results in place: they start from bytes
	// into the words of w, behind Overhead.Before bytes that are the Guard's to
	// fill in; up to Overhead.Behind bytes more may be written. With
	// Overhead.Rewrites it may change the payloads' bytes. Where it is false the
	// reply is not sent as it is: nothing leaves without its protection.
	Wrap(w *xdr.Writer, from int) bool
	// Release ends the use of the Guard, once.
	Release()
}

// Overhead is what a Guard adds to a call and its reply, in bytes.
type Overhead struct {
	// Verifier is the longest body of the verifier of a reply, with padding.
	Verifier int
	// Wraps: arguments and results are protected. Nothing travels beside the
	// message then (RFC 8166 §8.2.2), and the program is asked about the call
	// only when the protection was taken off.
	Wraps bool
	// Before and Behind are the room around the results for Wrap, in multiples of
	// four.
	Before, Behind int
	// Rewrites: Wrap changes the payloads' bytes. Payloads that are not in the
	// call's own memory are copied first.
	Rewrites bool
}

// A Handler is a Guard of a call that is the flavor's own business, such as the
// making of a context: it is served instead of the program, and neither unwrapped
// nor wrapped.
type Handler interface {
	Guard
	// Procedure bounds the call as a row of a Binding.
	Procedure() *Procedure
	// Serve is as Program.Serve. A verifier that is known only now may replace the
	// one of PutVerifier: w is then truncated to VerifierAt, and verifier, SUCCESS
	// and results are written anew.
	Serve(c *Call, w *xdr.Writer) Outcome
}

// protections are the flavors served, immutable.
type protections map[Flavor]Protection

// Protect serves callers of a flavor from now on.
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

// verify asks the Protection of the call's flavor.
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

// maxUnwrapAtOnce is the longest message, in bytes, whose protection is taken off
// on the goroutine that received it, and the longest payload of results that it puts
// protection on: the next calls of the connection wait meanwhile.
const maxUnwrapAtOnce = 64 << 10

// wrapsMuch says that the protection of the results may take long.
func (st *callState) wrapsMuch() bool {
	return st.overhead.Wraps && st.plan.Results > maxUnwrapAtOnce
}

// unwrap takes the protection off the arguments.
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

// body is the arguments, where they are now.
func (c *Call) body() []byte {
	return c.Message[c.Header.Size+c.state.from : len(c.Message)-c.state.behind]
}

// putAccepted writes the header of an accepted reply with the verifier that the
// call's flavor calls for. It is false where there is none to be had.
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

// putResultsHeader writes all that comes before the results.
func (c *Call) putResultsHeader(w *xdr.Writer) bool {
	ok := c.putAccepted(w, Success)
	if n := c.state.overhead.Before; n > 0 {
		w.Reserve(n)
	}
	c.state.results = w.Len()
	return ok
}

// wrap puts the protection on results.
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

// ownPayloads copies the payloads that may be others' as well: a file's pages that
// several replies refer to, a reply that was kept.
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
