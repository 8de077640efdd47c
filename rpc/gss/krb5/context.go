package krb5

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
)

// context is an established security context. It implements gss.Context. After it was established,
// only next and wrapping change.
type context struct {
	base      key // the key from which all others are derived
	principal string
	own       string
	expiry    time.Time
	// flags are the flags of each token that this side sends. peerFlags are the flags of each token
	// that it receives. Wrap tokens have sealedFlag as well.
	flags, peerFlags byte
	next             atomic.Uint64
	// sign is the key of this side's MIC tokens, verify the key of the peer's.
	sign, verify *macKey
	// wrapping has the keys of Wrap tokens: seal is for the tokens that this side sends. They are
	// derived for the first Wrap token, because most contexts of RPCSEC_GSS never have one.
	wrapping struct {
		sync.Once
		seal, open *cipherKeys
	}
}

var _ gss.Context = (*context)(nil)

// newContext returns a context without names and expiry. The parameter base is the initiator's or
// the acceptor's subkey, or the session key. flags are those of this side's MIC tokens: whether this
// side is the acceptor, and whether base is the acceptor's subkey. sequence is the number of this
// side's first token.
func newContext(base key, flags byte, sequence uint64) *context {
	c := &context{base: base, flags: flags, peerFlags: flags ^ sentByAcceptor}
	c.next.Store(sequence)
	ours, theirs := c.usages(keyusage.GSSAPI_ACCEPTOR_SIGN, keyusage.GSSAPI_INITIATOR_SIGN)
	c.sign, c.verify = base.checksumKey(ours), base.checksumKey(theirs)
	return c
}

// usages returns the key usage for this side and for the peer.
func (c *context) usages(acceptors, initiators uint32) (ours, theirs uint32) {
	if c.flags&sentByAcceptor != 0 {
		return acceptors, initiators
	}
	return initiators, acceptors
}

// wrapKeys returns the keys of Wrap tokens. The first call derives them.
func (c *context) wrapKeys() (seal, open *cipherKeys) {
	w := &c.wrapping
	w.Do(func() {
		ours, theirs := c.usages(keyusage.GSSAPI_ACCEPTOR_SEAL, keyusage.GSSAPI_INITIATOR_SEAL)
		w.seal, w.open = c.base.cipherKeys(ours), c.base.cipherKeys(theirs)
	})
	return w.seal, w.open
}

func (c *context) Principal() string { return c.principal }

// Own implements gss.Context. An acceptor's name is the principal of its key in the keytab, because
// the ticket may contain another name of the host.
func (c *context) Own() string { return c.own }

func (c *context) Expiry() time.Time { return c.expiry }

// EType returns the encryption type of the context's keys.
func (c *context) EType() EType { return c.base.etype }

// number returns the sequence number of the next token to send.
func (c *context) number() uint64 { return c.next.Add(1) - 1 }
