package gss

import "time"

// A Negotiator is a Mechanism whose acceptor may need several tokens of the initiator to make a
// context (RPCSEC_GSS_CONTINUE_INIT, RFC 2203 §5.2.2).
type Negotiator interface {
	Mechanism
	// Acceptor returns an Acceptor for a new context. It does not block.
	Acceptor() Acceptor
}

// An Acceptor makes one context. One goroutine at a time uses it.
type Acceptor interface {
	// Step takes the initiator's next token. reply is the token to send to the initiator, or nil if
	// there is none. bindings is as in Mechanism.Accept. c is nil until the context is established.
	// The error is an *Error. It ends the negotiation, unless its Major is ContinueNeeded: see
	// Mechanism.Accept.
	Step(token, bindings []byte, now time.Time) (c Context, reply []byte, err error)
}

// acceptorOf returns an Acceptor for a new context of m.
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
