package krb5

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
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

// headerSize is the length of the header of a per-message token, in bytes.
const headerSize = 16

// Token IDs (RFC 4121 §4.1, §4.2.6).
const (
	idAPReq    = 0x0100
	idAPRep    = 0x0200
	idKRBError = 0x0300
	idMIC      = 0x0404
	idWrap     = 0x0504
)

// Flags of a header (RFC 4121 §4.2.2).
const (
	sentByAcceptor = 1 << iota
	sealedFlag
	acceptorSubkey
	// knownFlags are the flags that the receiver of a token compares with the expected ones. It
	// ignores all others.
	knownFlags = sentByAcceptor | sealedFlag | acceptorSubkey
)

// filler is the value of the unused bytes of a header.
const filler = 0xFF

// putHeader writes the header of a MIC token, or of a Wrap token whose EC and RRC
// are 0 (RFC 4121 §4.2.6).
func putHeader(h []byte, id uint16, flags byte, sequence uint64) {
	binary.BigEndian.PutUint16(h, id)
	h[2], h[3] = flags, filler
	var between uint32
	if id == idMIC {
		between = 0xFFFFFFFF
	}
	binary.BigEndian.PutUint32(h[4:], between)
	binary.BigEndian.PutUint64(h[8:], sequence)
}

// extraCount and rightRotation return the fields EC and RRC of a Wrap token's header.
func extraCount(h []byte) int    { return int(binary.BigEndian.Uint16(h[4:])) }
func rightRotation(h []byte) int { return int(binary.BigEndian.Uint16(h[6:])) }

func hasID(token []byte, id uint16) bool { return binary.BigEndian.Uint16(token) == id }

// rotateLeft rotates b left by n bytes in place.
func rotateLeft(b []byte, n int) {
	if n == 0 || len(b) == 0 {
		return
	}
	front := bytes.Clone(b[:n%len(b)])
	copy(b[copy(b, b[len(front):]):], front)
}

func (c *context) MICSize() int { return headerSize + c.base.mac }

// MIC implements gss.Context (RFC 4121 §4.2.6.1).
func (c *context) MIC(dst []byte, pieces ...[]byte) []byte {
	var header [headerSize]byte
	putHeader(header[:], idMIC, c.flags, c.number())
	at := len(dst)
	dst = append(dst, header[:]...)
	return c.sign.appendMAC(dst, nil, pieces, dst[at:])
}

func (c *context) VerifyMIC(token []byte, pieces ...[]byte) error {
	if len(token) != c.MICSize() || !hasID(token, idMIC) {
		return errNotMIC
	}
	header := token[:headerSize]
	if header[2]&knownFlags != c.peerFlags || string(header[3:8]) != "\xff\xff\xff\xff\xff" {
		return errMICHeader
	}
	if !c.verify.matches(token[headerSize:], nil, pieces, header) {
		return errBadMIC
	}
	return nil
}

// WrapSize implements gss.Context. Before the message come header and confounder. After it come the
// encrypted copy of the header and the integrity check.
func (c *context) WrapSize() (before, behind int) {
	return headerSize + blockSize, headerSize + c.base.mac
}

// Wrap implements gss.Context (RFC 4121 §4.2.4, §4.2.6.2). It does not rotate the token (RRC), and
// adds no padding (EC).
func (c *context) Wrap(pieces ...[]byte) {
	first, last := 0, len(pieces)-1
	before, behind := pieces[first], pieces[last]
	if b, e := c.WrapSize(); len(before) != b || len(behind) != e {
		panic("krb5: Wrap with other room than WrapSize says")
	}
	header, confounder, copied := before[:headerSize], before[headerSize:], behind[:headerSize]
	putHeader(header, idWrap, c.flags|sealedFlag, c.number())
	rand.Read(confounder)
	copy(copied, header)
	pieces[first], pieces[last] = confounder, copied
	seal, _ := c.wrapKeys()
	seal.seal(copied, pieces)
	pieces[first], pieces[last] = before, behind
}

// Unwrap implements gss.Context (RFC 4121 §4.2.4, §4.2.5, §4.2.6.2).
func (c *context) Unwrap(token []byte) (from, to int, err error) {
	if len(token) < headerSize || !hasID(token, idWrap) {
		return 0, 0, errNotWrap
	}
	header := token[:headerSize]
	if header[2]&knownFlags != c.peerFlags|sealedFlag || header[3] != filler {
		return 0, 0, errWrapHeader
	}
	rotateLeft(token[headerSize:], rightRotation(header))
	clear(header[6:8]) // the sender made the encrypted copy of the header before it rotated the token
	end := len(token) - c.base.mac
	from, to = headerSize+blockSize, end-headerSize-extraCount(header)
	if to < from {
		return 0, 0, errShortWrap
	}
	_, open := c.wrapKeys()
	// The copy of the header is authentic if the token is.
	if !open.open(token[headerSize:end], token[end:]) || string(token[end-headerSize:end]) != string(header) {
		return 0, 0, errBadWrap
	}
	return from, to, nil
}

// Errors of per-message tokens. They are variables, so that a peer that sends many bad tokens
// causes no allocations.
var (
	errNotMIC     = &gss.Error{Major: gss.DefectiveToken, Text: "not a MIC token, or not of the context's encryption type"}
	errMICHeader  = &gss.Error{Major: gss.DefectiveToken, Text: "a MIC token of the wrong direction or key"}
	errBadMIC     = &gss.Error{Major: gss.BadMIC, Text: "the checksum does not match the message"}
	errNotWrap    = &gss.Error{Major: gss.DefectiveToken, Text: "not a Wrap token"}
	errWrapHeader = &gss.Error{Major: gss.DefectiveToken, Text: "a Wrap token of the wrong direction or key, or that is not encrypted"}
	errShortWrap  = &gss.Error{Major: gss.DefectiveToken, Text: "a Wrap token that is too short"}
	errBadWrap    = &gss.Error{Major: gss.BadMIC, Text: "the token was changed, or not made with the context's keys"}
)
