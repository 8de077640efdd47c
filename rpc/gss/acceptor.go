package gss

import "time"

// A Negotiator is a Mechanism whose acceptor may need several tokens of the initiator
// (RPCSEC_GSS_CONTINUE_INIT, RFC 2203 §5.2.2).
type Negotiator interface {
	Mechanism
	// Acceptor begins a context. It does not wait.
	Acceptor() Acceptor
}

// An Acceptor makes one context. One goroutine at a time uses it.
type Acceptor interface {
	// Step takes a token of the initiator, and returns the token of the answer, or nil if there
	// is none. bindings is as for Mechanism.Accept. c is nil until the context is established.
	// The error is an *Error. It ends the context, except with ContinueNeeded: see
	// Mechanism.Accept.
	Step(token, bindings []byte, now time.Time) (c Context, reply []byte, err error)
}

// acceptorOf begins a context of m.
func acceptorOf(m Mechanism) Acceptor {
	if n, ok := m.(Negotiator); ok {
		return n.Acceptor()
	}
	return oneToken{m}
}

// oneToken is the Acceptor of a mechanism that needs only one token.
type oneToken struct{ Mechanism }

// Step implements Acceptor.
func (o oneToken) Step(token, bindings []byte, now time.Time) (Context, []byte, error) {
	return o.Accept(token, bindings, now)
}
