package gsstest

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"hash"
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
)

// Sizes of tokens, in bytes. Wrap puts the kind and a nonce before a message, and a
// checksum after it.
const (
	micSize    = 30
	beforeSize = 4 + aes.BlockSize
	behindSize = 29
)

// A context is one party's half of an established security context.
type context struct {
	principal string
	own       string
	expiry    time.Time
	block     cipher.Block
	out, in   direction
}

// direction computes the checksums of the tokens in one direction.
type direction struct{ sums sync.Pool }

func (m *Mechanism) context(principal, own string, initiator, acceptor []byte, initiating bool, expiry time.Time) gss.Context {
	key := m.sum([]byte("key"), initiator, acceptor)
	block, err := aes.NewCipher(key[:16])
	if err != nil {
		panic(err)
	}
	c := &context{principal: principal, own: own, expiry: expiry, block: block}
	to, from := &c.out, &c.in
	if !initiating {
		to, from = from, to
	}
	to.key(m.sum([]byte("to the acceptor"), key))
	from.key(m.sum([]byte("to the initiator"), key))
	return c
}

// sum is reusable memory for the computation of a checksum.
type sum struct {
	hash.Hash
	b [sha256.Size]byte
}

func (d *direction) key(key []byte) {
	d.sums.New = func() any { return &sum{Hash: hmac.New(sha256.New, key)} }
}

// sum appends the checksum of the pieces of a token to dst, cut off after size bytes.
func (d *direction) sum(kind byte, size int, dst []byte, pieces ...[]byte) []byte {
	h := d.sums.Get().(*sum)
	h.Reset()
	h.b[0] = kind
	h.Write(h.b[:1])
	for _, p := range pieces {
		h.Write(p)
	}
	dst = append(dst, h.Hash.Sum(h.b[:0])[:size]...)
	d.sums.Put(h)
	return dst
}

// Kinds of tokens.
const (
	kindMIC  = 1
	kindWrap = 2
)

// Principal implements gss.Context.
func (c *context) Principal() string { return c.principal }

// Own implements gss.Context.
func (c *context) Own() string { return c.own }

// Expiry implements gss.Context.
func (c *context) Expiry() time.Time { return c.expiry }

// MICSize implements gss.Context.
func (c *context) MICSize() int { return micSize }

// MIC implements gss.Context.
func (c *context) MIC(dst []byte, pieces ...[]byte) []byte {
	return c.out.sum(kindMIC, micSize, dst, pieces...)
}

// VerifyMIC implements gss.Context.
func (c *context) VerifyMIC(token []byte, pieces ...[]byte) error {
	var b [micSize]byte
	if !hmac.Equal(token, c.in.sum(kindMIC, micSize, b[:0], pieces...)) {
		return &gss.Error{Major: gss.BadMIC, Text: "the checksum is another"}
	}
	return nil
}

// WrapSize implements gss.Context.
func (c *context) WrapSize() (before, behind int) { return beforeSize, behindSize }

// Wrap implements gss.Context.
func (c *context) Wrap(pieces ...[]byte) {
	last := len(pieces) - 1
	before, behind := pieces[0], pieces[last]
	if len(before) != beforeSize || len(behind) != behindSize {
		panic("gsstest: Wrap with room of another size")
	}
	copy(before, []byte{kindWrap, 0xff, 0xff, 0xff})
	rand.Read(before[4:])
	s := cipher.NewCTR(c.block, before[4:])
	for _, p := range pieces[1:last] {
		s.XORKeyStream(p, p)
	}
	c.out.sum(kindWrap, behindSize, behind[:0], pieces[:last]...)
}

// Unwrap implements gss.Context.
func (c *context) Unwrap(token []byte) (from, to int, err error) {
	from, to = beforeSize, len(token)-behindSize
	if to < from || token[0] != kindWrap {
		return 0, 0, &gss.Error{Major: gss.DefectiveToken, Text: "the token has no form"}
	}
	if !hmac.Equal(token[to:], c.in.sum(kindWrap, behindSize, nil, token[:to])) {
		return 0, 0, &gss.Error{Major: gss.BadMIC, Text: "the checksum is another"}
	}
	cipher.NewCTR(c.block, token[4:beforeSize]).XORKeyStream(token[from:to], token[from:to])
	return from, to, nil
}
