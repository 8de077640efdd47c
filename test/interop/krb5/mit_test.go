//go:build interop

package krb5

import (
	"context"
	"encoding/hex"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss/krb5"
)

// mit is a Mechanism that initiates contexts through MIT's library. The library makes all tokens
// of a gss.Client's calls.
type mit struct {
	t   *testing.T
	env []string
}

// mitAs returns a mit for the principal of a credential cache.
func (s *site) mitAs(t *testing.T, cache string) *mit {
	return &mit{t, append(s.environment(), "KRB5CCNAME=FILE:"+cache)}
}

func (m *mit) OID() []byte { return krb5.New(krb5.Config{}).OID() }

// Acceptor implements gss.Mechanism. No test uses this mechanism as an acceptor.
func (m *mit) Acceptor() gss.Acceptor { panic("mit only initiates") }

func (m *mit) Initiate(_ context.Context, target string) (gss.Initiator, error) {
	return &mitInitiator{newPeer(m.t, m.env, "initiate", target, "", true)}, nil
}

type mitInitiator struct{ *peer }

func (i *mitInitiator) Step(token []byte, _ time.Time) ([]byte, gss.Context, error) {
	r := request{}
	if len(token) > 0 {
		r["token"] = hex.EncodeToString(token)
	}
	a := i.must("step", r)
	if !a.Complete {
		return i.bytes(a.Token), nil, nil
	}
	return nil, &mitContext{peer: i.peer, mic: len(i.bytes(i.must("mic", request{"message": ""}).Token))}, nil
}

// A mitContext is a context of MIT's library. Only one goroutine at a time may use it.
type mitContext struct {
	*peer
	mic int
}

func (c *mitContext) Principal() string { return acceptorName }
func (c *mitContext) Own() string       { return "" }
func (c *mitContext) Expiry() time.Time { return time.Now().Add(time.Hour) }
func (c *mitContext) MICSize() int      { return c.mic }

func joined(pieces [][]byte) (all []byte) {
	for _, p := range pieces {
		all = append(all, p...)
	}
	return all
}

func (c *mitContext) MIC(dst []byte, pieces ...[]byte) []byte {
	a := c.must("mic", request{"message": hex.EncodeToString(joined(pieces))})
	return append(dst, c.bytes(a.Token)...)
}

func (c *mitContext) VerifyMIC(token []byte, pieces ...[]byte) error {
	a := c.ask("verify", request{"message": hex.EncodeToString(joined(pieces)), "token": hex.EncodeToString(token)})
	if a.Error != "" {
		return &gss.Error{Major: gss.BadMIC, Text: a.Error}
	}
	return nil
}

// WrapSize returns the sizes of RFC 4121 §4.2.4, without filler bytes.
func (c *mitContext) WrapSize() (before, behind int) { return 16 + 16, c.mic }

func (c *mitContext) Wrap(pieces ...[]byte) {
	message := joined(pieces[1 : len(pieces)-1])
	token := c.bytes(c.must("wrap", request{"message": hex.EncodeToString(message), "sealed": true}).Token)
	if want := len(joined(pieces)); len(token) != want {
		c.t.Fatalf("a token of %d bytes, want %d", len(token), want)
	}
	for _, p := range pieces {
		token = token[copy(p, token):]
	}
}

func (c *mitContext) Unwrap(token []byte) (from, to int, err error) {
	a := c.ask("unwrap", request{"token": hex.EncodeToString(token)})
	if a.Error != "" || !a.Sealed {
		return 0, 0, &gss.Error{Major: gss.BadMIC, Text: a.Error}
	}
	return 0, copy(token, c.bytes(a.Message)), nil
}
