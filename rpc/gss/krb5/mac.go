package krb5

import (
	"crypto/subtle"
	"encoding"
	"hash"
	"sync"
)

// A macKey makes truncated HMACs (RFC 2104) with one derived key. It holds the state of the hash
// after the inner and the outer pad. It is immutable.
type macKey struct {
	profile      *profile
	inner, outer []byte
}

// newMACKey makes a macKey.
func newMACKey(p *profile, key []byte) *macKey {
	return &macKey{profile: p, inner: padded(p, key, 0x36), outer: padded(p, key, 0x5c)}
}

// padded returns the state of p's hash after the key combined with a pad. No derived key is longer
// than the hash's block.
func padded(p *profile, key []byte, pad byte) []byte {
	h := p.hash()
	block := make([]byte, h.BlockSize())
	copy(block, key)
	for i := range block {
		block[i] ^= pad
	}
	h.Write(block)
	state, err := h.(encoding.BinaryMarshaler).MarshalBinary()
	if err != nil {
		panic(err) // the standard library's hashes do not fail
	}
	return state
}

// A hasher is a hash for one computation, with memory for the result.
type hasher struct {
	hash.Hash
	state encoding.BinaryUnmarshaler
	sum   []byte
}

// A hasherPool keeps idle hashers.
type hasherPool struct{ pool sync.Pool }

func newHasherPool(create func() hash.Hash) *hasherPool {
	return &hasherPool{sync.Pool{New: func() any {
		h := create()
		return &hasher{Hash: h, state: h.(encoding.BinaryUnmarshaler), sum: make([]byte, 0, h.Size())}
	}}}
}

// start takes a hasher from the pool, in the state after k's inner pad.
func (k *macKey) start() *hasher {
	h := k.profile.hashers.pool.Get().(*hasher)
	h.become(k.inner)
	return h
}

func (h *hasher) become(state []byte) {
	if err := h.state.UnmarshalBinary(state); err != nil {
		panic(err) // the state is one of the same hash
	}
}

// writeAll hashes pieces.
func (h *hasher) writeAll(pieces [][]byte) {
	for _, p := range pieces {
		h.Write(p)
	}
}

// finish completes the HMAC that start began. The result is valid until giveBack.
func (k *macKey) finish(h *hasher) []byte {
	h.sum = h.Sum(h.sum[:0])
	h.become(k.outer)
	h.Write(h.sum)
	h.sum = h.Sum(h.sum[:0])
	return h.sum[:k.profile.mac]
}

func (k *macKey) giveBack(h *hasher) { k.profile.hashers.pool.Put(h) }

// appendMAC appends the HMAC that start began to dst, and gives the hasher back.
func (k *macKey) appendMAC(dst []byte, h *hasher) []byte {
	dst = append(dst, k.finish(h)...)
	k.giveBack(h)
	return dst
}

// matches compares mac with the HMAC that start began, and gives the hasher back.
func (k *macKey) matches(mac []byte, h *hasher) bool {
	ok := subtle.ConstantTimeCompare(k.finish(h), mac) == 1
	k.giveBack(h)
	return ok
}
