package krb5

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
)

// context is an established security context. It implements gss.Context. After newContext, only
// next and wrapping change.
type context struct {
	profile   *profile
	principal string
	own       string
	expiry    time.Time
	// flags are the flags of each token that this side sends. peerFlags are the flags of each token
	// that it receives. Wrap tokens have sealedFlag as well.
	flags, peerFlags byte
	next             atomic.Uint64
	// sign is the key of this side's MIC tokens, verify the key of the peer's.
	sign, verify *macKey
	wrapping     wrapKeys
}

// wrapKeys has the keys of Wrap tokens: seal is for the tokens that this side sends. The keys are
// derived for the first Wrap token, because most contexts of RPCSEC_GSS never have one.
type wrapKeys struct {
	base       key
	acceptor   bool
	once       sync.Once
	seal, open *cipherKeys
}

var _ gss.Context = (*context)(nil)

// established has the results of an AP exchange, from which newContext makes a context.
type established struct {
	key       key
	acceptor  bool // this side is the acceptor
	ownSubkey bool // key is the acceptor's subkey
	sequence  uint64
	principal string
	own       string
	expiry    time.Time
}

func newContext(e established) *context {
	c := &context{profile: e.key.profile, principal: e.principal, own: e.own, expiry: e.expiry}
	c.next.Store(e.sequence)
	c.wrapping.base, c.wrapping.acceptor = e.key, e.acceptor
	ours, theirs := sides[uint32](e.acceptor, keyusage.GSSAPI_ACCEPTOR_SIGN, keyusage.GSSAPI_INITIATOR_SIGN)
	c.sign, c.verify = e.key.checksumKey(ours), e.key.checksumKey(theirs)
	c.flags, c.peerFlags = sides[byte](e.acceptor, sentByAcceptor, 0)
	if e.ownSubkey {
		c.flags |= acceptorSubkey
		c.peerFlags |= acceptorSubkey
	}
	return c
}

// sides returns the value for this side, and the value for the peer. acceptor is true if this side
// is the acceptor.
func sides[T any](acceptor bool, acceptors, initiators T) (ours, theirs T) {
	if acceptor {
		return acceptors, initiators
	}
	return initiators, acceptors
}

// wrapKeys returns the keys of Wrap tokens. The first call derives them.
func (c *context) wrapKeys() *wrapKeys {
	c.wrapping.once.Do(c.wrapping.derive)
	return &c.wrapping
}

func (w *wrapKeys) derive() {
	ours, theirs := sides[uint32](w.acceptor, keyusage.GSSAPI_ACCEPTOR_SEAL, keyusage.GSSAPI_INITIATOR_SEAL)
	w.seal, w.open = w.base.cipherKeys(ours), w.base.cipherKeys(theirs)
}

func (c *context) Principal() string { return c.principal }

// Own implements gss.Context. An acceptor's name is the principal of its key in the keytab, because
// the ticket may contain another name of the host.
func (c *context) Own() string { return c.own }

func (c *context) Expiry() time.Time { return c.expiry }

// EType returns the encryption type of the context's keys.
func (c *context) EType() EType { return c.profile.etype }

// number returns the sequence number of the next token to send.
func (c *context) number() uint64 { return c.next.Add(1) - 1 }
