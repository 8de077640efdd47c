package krb5

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
)

// Key usages of the tokens of a context (RFC 4121 §2).
const (
	usageAcceptorSeal  = 22
	usageAcceptorSign  = 23
	usageInitiatorSeal = 24
	usageInitiatorSign = 25
)

// context is an established security context: gss.Context. All but the number of
// the next token stays as it is made.
type context struct {
	profile   *profile
	principal string
	own       string
	expiry    time.Time
	bound     bool
	// flags stand on each token that is sent, but for sealedFlag; peerFlags on each
	// that is received.
	flags, peerFlags byte
	next             atomic.Uint64
	// sign and verify are the keys of MIC tokens.
	sign, verify *macKey
	wrapping     wrapKeys
}

// wrapKeys are the keys of Wrap tokens, sealed and not. They are derived when one is
// made or taken for the first time: most contexts of RPCSEC_GSS never see any.
type wrapKeys struct {
	base           key
	acceptor       bool
	once           sync.Once
	seal, open     *cipherKeys
	plain, unplain *macKey
}

var _ gss.Context = (*context)(nil)

// established is what a context is made from.
type established struct {
	key       key
	acceptor  bool // which side is ours
	ownSubkey bool // key is the acceptor's subkey
	sequence  uint64
	principal string
	own       string
	expiry    time.Time
	bound     bool
}

func newContext(e established) *context {
	c := &context{profile: e.key.profile, principal: e.principal, own: e.own, expiry: e.expiry, bound: e.bound}
	c.next.Store(e.sequence)
	c.wrapping.base, c.wrapping.acceptor = e.key, e.acceptor
	ours, theirs := sides[uint32](e.acceptor, usageAcceptorSign, usageInitiatorSign)
	c.sign, c.verify = e.key.checksumKey(ours), e.key.checksumKey(theirs)
	c.flags, c.peerFlags = sides[byte](e.acceptor, sentByAcceptor, 0)
	if e.ownSubkey {
		c.flags |= acceptorSubkey
		c.peerFlags |= acceptorSubkey
	}
	return c
}

// sides gives ours and theirs of what the acceptor has and what the initiator has.
func sides[T any](acceptor bool, acceptors, initiators T) (ours, theirs T) {
	if acceptor {
		return acceptors, initiators
	}
	return initiators, acceptors
}

// wrapKeys are the keys of Wrap tokens.
func (c *context) wrapKeys() *wrapKeys {
	c.wrapping.once.Do(c.wrapping.derive)
	return &c.wrapping
}

func (w *wrapKeys) derive() {
	ours, theirs := sides[uint32](w.acceptor, usageAcceptorSeal, usageInitiatorSeal)
	w.seal, w.open = w.base.cipherKeys(ours), w.base.cipherKeys(theirs)
	w.plain, w.unplain = w.base.checksumKey(ours), w.base.checksumKey(theirs)
}

// Principal is part of gss.Context.
func (c *context) Principal() string { return c.principal }

// Own is part of gss.Context. An acceptor's name is that of the key of its keytab, as a
// ticket may name the host otherwise.
func (c *context) Own() string { return c.own }

// Expiry is part of gss.Context.
func (c *context) Expiry() time.Time { return c.expiry }

// EType is the encryption type of the context's keys.
func (c *context) EType() EType { return c.profile.etype }

// Bound is part of gss.Context.
func (c *context) Bound() bool { return c.bound }

// number is the sequence number of the token to be sent.
func (c *context) number() uint64 { return c.next.Add(1) - 1 }
