package gsstest

import (
	stdcontext "context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
)

// oid is the mechanism's object identifier, 1.2.840.4711.
var oid = []byte{0x2a, 0x86, 0x48, 0xa4, 0x67}

// A Mechanism is the test mechanism. Initiator and acceptor may use the same Mechanism. Set its
// fields before its first use.
type Mechanism struct {
	// Secret is the secret that both ends share.
	Secret string
	// Name is the principal of initiators. Host is the principal of acceptors.
	Name, Host string
	// Life is the lifetime of a context (default one hour).
	Life time.Duration
	// Tokens is the number of tokens of the initiator that the acceptor needs (default 1).
	Tokens int
	// Refuse, if not nil, is called for each token that the acceptor gets. If it returns an error,
	// the acceptor refuses the token.
	Refuse func(principal string) error
	// Unreachable, if not nil, is called by Initiate, which returns its error. Unreachable may wait
	// until ctx ends.
	Unreachable func(ctx stdcontext.Context) error

	// Accepted and Initiated count the contexts established at each end.
	Accepted, Initiated atomic.Int64
}

// New returns a Mechanism whose initiators are user@TEST.
func New() *Mechanism {
	return &Mechanism{Secret: "between the two of us", Name: "user@TEST", Host: "nfs/server@TEST"}
}

// OID implements gss.Mechanism.
func (m *Mechanism) OID() []byte { return oid }

// Acceptor implements gss.Mechanism.
func (m *Mechanism) Acceptor() gss.Acceptor { return &acceptor{m: m, left: max(m.Tokens, 1)} }

// Initiate implements gss.Mechanism.
func (m *Mechanism) Initiate(ctx stdcontext.Context, target string) (gss.Initiator, error) {
	if m.Unreachable != nil {
		if err := m.Unreachable(ctx); err != nil {
			return nil, err
		}
	}
	return &initiator{m: m, target: target, left: max(m.Tokens, 1)}, nil
}

func (m *Mechanism) expiry(now time.Time) time.Time {
	if m.Life == 0 {
		return now.Add(time.Hour)
	}
	return now.Add(m.Life)
}

// A token consists of content and checksum. The initiator's first token also has a header (RFC 2743
// §3.1).

const sumSize = sha256.Size

func (m *Mechanism) sum(parts ...[]byte) []byte {
	h := hmac.New(sha256.New, []byte(m.Secret))
	for _, p := range parts {
		h.Write([]byte{byte(len(p))})
		h.Write(p)
	}
	return h.Sum(nil)
}

// nonceSize is the length of the nonce that each end contributes to the key, in bytes.
const nonceSize = 16

func newNonce() []byte {
	b := make([]byte, nonceSize)
	rand.Read(b)
	return b
}

// frame returns b with the header of an initial token (RFC 2743 §3.1).
func frame(b []byte) []byte {
	inner := append([]byte{0x06, byte(len(oid))}, oid...)
	inner = append(inner, b...)
	if len(inner) < 0x80 {
		return append([]byte{0x60, byte(len(inner))}, inner...)
	}
	return append([]byte{0x60, 0x82, byte(len(inner) >> 8), byte(len(inner))}, inner...)
}

// again is the first octet of all tokens of the initiator except the first.
const again = 0

// unframe returns a token without its header or first octet.
func unframe(b []byte) []byte {
	if len(b) < 2 {
		return nil
	}
	if b[0] == again {
		return b[1:]
	}
	n := 2
	if b[1] >= 0x80 {
		n += int(b[1] & 0x7f)
	}
	if n += 2 + len(oid); n > len(b) {
		return nil
	}
	return b[n:]
}

func defective(text string) error { return &gss.Error{Major: gss.DefectiveToken, Text: text} }

// An initiator makes one context. The field left is the number of tokens that it still has to send.
// Each contains its nonce and its name. Then the acceptor answers with its own nonce.
type initiator struct {
	m      *Mechanism
	target string
	left   int
	nonce  []byte
}

// Step implements gss.Initiator.
func (i *initiator) Step(token []byte, now time.Time) ([]byte, gss.Context, error) {
	first := i.nonce == nil
	if first {
		i.nonce = newNonce()
	}
	if i.left > 0 {
		if !first && string(token) != "go on" {
			return nil, nil, defective("the acceptor wants something else")
		}
		i.left--
		said := append(append([]byte{}, i.nonce...), i.m.Name...)
		said = append(said, i.m.sum([]byte("initiator"), said)...)
		if first {
			return frame(said), nil, nil
		}
		return append([]byte{again}, said...), nil, nil
	}
	if len(token) != nonceSize+sumSize {
		return nil, nil, defective("the acceptor's token is of another length")
	}
	nonce := token[:nonceSize]
	if !hmac.Equal(token[nonceSize:], i.m.sum([]byte("acceptor"), i.nonce, nonce)) {
		return nil, nil, &gss.Error{Major: gss.BadMIC, Text: "the acceptor does not know the secret"}
	}
	i.m.Initiated.Add(1)
	return nil, i.m.context(i.m.Host, i.m.Name, i.nonce, nonce, true, i.m.expiry(now)), nil
}

// An acceptor makes one context. The field left is the number of tokens that it still needs. The
// field said is the content of the first token; the content of the others has to be the same.
type acceptor struct {
	m    *Mechanism
	left int
	said string
}

// Accept implements gss.Acceptor.
func (a *acceptor) Accept(token []byte, now time.Time) (gss.Context, []byte, error) {
	token = unframe(token)
	if len(token) < nonceSize+sumSize {
		return nil, nil, defective("the token is short")
	}
	said, sum := token[:len(token)-sumSize], token[len(token)-sumSize:]
	if !hmac.Equal(sum, a.m.sum([]byte("initiator"), said)) {
		return nil, nil, &gss.Error{Major: gss.DefectiveCred, Minor: 31, Text: "the initiator uses another secret"}
	}
	if a.said == "" {
		a.said = string(said)
	}
	if string(said) != a.said {
		return nil, nil, defective("the initiator says something else than before")
	}
	name := string(said[nonceSize:])
	if a.m.Refuse != nil {
		if err := a.m.Refuse(name); err != nil {
			return nil, nil, err
		}
	}
	if a.left--; a.left > 0 {
		return nil, []byte("go on"), nil
	}
	nonce := newNonce()
	a.m.Accepted.Add(1)
	c := a.m.context(name, a.m.Host, said[:nonceSize], nonce, false, a.m.expiry(now))
	return c, append(nonce, a.m.sum([]byte("acceptor"), said[:nonceSize], nonce)...), nil
}
