package krb5

import (
	"crypto/subtle"
	"encoding"
	"hash"
)

// A macKey computes truncated HMACs (RFC 2104) with one derived key. It is immutable. inner and
// outer are the states of the hash after the inner and after the outer padded key. With them, no
// message costs an hmac.New, which allocates memory and hashes both padded keys.
type macKey struct {
	profile      *profile
	inner, outer []byte
}

// newMACKey returns a macKey for a derived key, which is shorter than a block of the hash.
func newMACKey(p *profile, key []byte) *macKey {
	padded := func(pad byte) []byte {
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
	return &macKey{profile: p, inner: padded(0x36), outer: padded(0x5c)}
}

// A hasher is a hash function with memory for its result. profile.hashers has the unused ones.
type hasher struct {
	hash.Hash
	sum []byte
}

func newHasher(h hash.Hash) *hasher { return &hasher{h, make([]byte, 0, h.Size())} }

func (h *hasher) become(state []byte) {
	if err := h.Hash.(encoding.BinaryUnmarshaler).UnmarshalBinary(state); err != nil {
		panic(err) // a state of the same hash function is always valid
	}
}

// compute returns the HMAC of the concatenation of before, pieces and behind. The result is valid
// until the next use of h.
func (k *macKey) compute(h *hasher, before []byte, pieces [][]byte, behind []byte) []byte {
	h.become(k.inner)
	h.Write(before)
	for _, p := range pieces {
		h.Write(p)
	}
	h.Write(behind)
	h.sum = h.Sum(h.sum[:0])
	h.become(k.outer)
	h.Write(h.sum)
	h.sum = h.Sum(h.sum[:0])
	return h.sum[:k.profile.mac]
}

// appendMAC appends the HMAC of the concatenation of before, pieces and behind to dst.
func (k *macKey) appendMAC(dst, before []byte, pieces [][]byte, behind []byte) []byte {
	h := k.profile.hashers.Get().(*hasher)
	defer k.profile.hashers.Put(h)
	return append(dst, k.compute(h, before, pieces, behind)...)
}

// matches reports whether mac is the HMAC of the concatenation of before, pieces and behind.
func (k *macKey) matches(mac, before []byte, pieces [][]byte, behind []byte) bool {
	h := k.profile.hashers.Get().(*hasher)
	defer k.profile.hashers.Put(h)
	return subtle.ConstantTimeCompare(k.compute(h, before, pieces, behind), mac) == 1
}
