package rpc

import "github.com/nfsrdmad/nfsrdmad/rpc/xdr"

// A Protection implements one authentication flavor: it verifies the caller by the call's header,
// and returns the Guard that protects arguments and results. AUTH_NONE and AUTH_SYS are built in;
// Server.Protect adds others.
type Protection interface {
	// Verify checks the caller by the header alone (RFC 5531 §8.2), and fills in a.Cred. Done accepts
	// the call; Denied refuses it with a reason; Dropped and DropAndEnd end it without a reply. The
	// Guard protects this call and its reply. If it is nil, as it must be if the outcome is not Done,
	// nothing is protected, and the reply's verifier is AUTH_NONE. Verify may be called from many
	// goroutines at once and must not block.
	Verify(a *Arrived) (Guard, Outcome)
}

// A Guard protects one call and its reply. The rpc package calls one method at a time, but not
// always on the same goroutine.
type Guard interface {
	// Overhead returns the number of bytes that the protection adds. It always returns the same
	// value.
	Overhead() Overhead
	// Unwrap removes the protection from the arguments in place: afterwards body[from:to] holds the
	// program's arguments. It returns false if the arguments were changed in transit or are
	// malformed; the server then replies GARBAGE_ARGS. The server calls Unwrap at most once, and only
	// if Overhead.Wraps is set. Unwrap may compute for long, but must not wait for other events.
	Unwrap(body []byte) (from, to int, ok bool)
	// PutVerifier writes the verifier of an accepted reply, flavor and body. If it returns false,
	// the server sends no reply.
	PutVerifier(w *xdr.Writer) bool
	// Wrap protects the results in place. The parameter from is their offset in w.Bytes(). Wrap
	// fills in the Overhead.Before bytes before them, and may append up to Overhead.Behind bytes.
	// If Overhead.Rewrites is set, it may change the bytes of the payloads. If it returns false,
	// the server does not send the results, because they are not protected.
	Wrap(w *xdr.Writer, from int) bool
	// Release is called once, when the server no longer needs the Guard.
	Release()
}

// Overhead is the size that a Guard adds to a call and its reply, in bytes.
type Overhead struct {
	// Verifier is the longest body of a reply's verifier, padding included.
	Verifier int
	// Wraps is true if arguments and results are protected. Then no item may travel outside the
	// message (RFC 8166 §8.2.2), and the server calls Judge only after Unwrap.
	Wraps bool
	// Before is the number of bytes that Wrap adds before the results. Behind is the largest number
	// that it adds after them. Both are multiples of four.
	Before, Behind int
	// Rewrites is true if Wrap changes the bytes of payloads. Then package rpc first copies the
	// payloads that are not in the call's own memory.
	Rewrites bool
}

// A Handler is a Guard that serves the call itself, instead of the program. A flavor uses it for
// control calls of its own, such as the creation of an RPCSEC_GSS context. The server calls neither
// Unwrap nor Wrap for such a call.
type Handler interface {
	Guard
	// Procedure returns the size limits of the call, like a row of a Binding.
	Procedure() *Procedure
	// Serve is like Service.Serve. w already holds a reply header with the verifier of PutVerifier.
	// To send another verifier, Serve truncates w to VerifierAt, and writes verifier, SUCCESS and
	// results.
	Serve(c *Call, w *xdr.Writer) Outcome
}

// maxUnwrapAtOnce is the longest message, in bytes, that the receiving goroutine unwraps itself,
// and the longest payload of results that it wraps itself. Longer ones go to the executor, because
// the next calls of the connection wait while the receiving goroutine computes.
const maxUnwrapAtOnce = 64 << 10

// unwrap removes the protection from the arguments. It returns false if the Guard could not remove
// it.
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
