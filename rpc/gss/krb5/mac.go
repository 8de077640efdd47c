package krb5

import (
	"crypto/subtle"
	"encoding"
	"hash"
	"sync"
)

// A macKey computes truncated HMACs (RFC 2104) with one derived key. It is immutable. inner and
// outer are the states of the hash after the inner and after the outer padded key.
type macKey struct {
	profile      *profile
	inner, outer []byte
}

// newMACKey returns a macKey for a derived key.
func newMACKey(p *profile, key []byte) *macKey {
	return &macKey{profile: p, inner: padded(p, key, 0x36), outer: padded(p, key, 0x5c)}
}

// padded returns the state of p's hash after it has hashed one block: the key, filled up with
// zeros, with each byte XORed with pad. The key must not be longer than the block; derived keys are
// shorter.
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

// A hasher is a hash function with memory for its result. One computation at a time uses it.
type hasher struct {
	hash.Hash
	state encoding.BinaryUnmarshaler
	sum   []byte
}

// A hasherPool is a pool of unused hashers.
type hasherPool struct{ pool sync.Pool }

func newHasherPool(create func() hash.Hash) *hasherPool {
	return &hasherPool{sync.Pool{New: func() any {
		h := create()
		return &hasher{Hash: h, state: h.(encoding.BinaryUnmarshaler), sum: make([]byte, 0, h.Size())}
	}}}
}

// start begins an HMAC with k. It returns a hasher from the pool, to which the caller writes the
// message.
func (k *macKey) start() *hasher {
	h := k.profile.hashers.pool.Get().(*hasher)
	h.become(k.inner)
	return h
}

func (h *hasher) become(state []byte) {
	if err := h.state.UnmarshalBinary(state); err != nil {
		panic(err) // a state of the same hash function is always valid
	}
}

// writeAll writes all pieces to the hash.
func (h *hasher) writeAll(pieces [][]byte) {
	for _, p := range pieces {
		h.Write(p)
	}
}

// finish returns the HMAC that start began. The result is valid until giveBack.
func (k *macKey) finish(h *hasher) []byte {
	h.sum = h.Sum(h.sum[:0])
	h.become(k.outer)
	h.Write(h.sum)
	h.sum = h.Sum(h.sum[:0])
	return h.sum[:k.profile.mac]
}

func (k *macKey) giveBack(h *hasher) { k.profile.hashers.pool.Put(h) }

// appendMAC appends the HMAC that start began to dst, and returns the hasher to the pool.
func (k *macKey) appendMAC(dst []byte, h *hasher) []byte {
	dst = append(dst, k.finish(h)...)
	k.giveBack(h)
	return dst
}

// matches reports whether mac is the HMAC that start began, and returns the hasher to the pool.
func (k *macKey) matches(mac []byte, h *hasher) bool {
	ok := subtle.ConstantTimeCompare(k.finish(h), mac) == 1
	k.giveBack(h)
	return ok
}
