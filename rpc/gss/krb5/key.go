package krb5

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding"
	"fmt"
	"hash"
	"sync"

	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/crypto/common"
	"github.com/jcmturner/gokrb5/v8/crypto/etype"
)

// EType is the number of an encryption type (RFC 3961 §8).
type EType int32

// Supported encryption types (RFC 3962 §7, RFC 8009 §8).
const (
	AES128SHA1 EType = 17
	AES256SHA1 EType = 18
	AES128SHA2 EType = 19
	AES256SHA2 EType = 20
)

// A profile describes an encryption type.
type profile struct {
	etype EType
	name  string
	// key is the length of a protocol key and of the cipher's key, in bytes.
	key int
	// macFirst is true if the integrity check is computed over the plaintext (RFC 3962), and false
	// if it is computed over the ciphertext (RFC 8009).
	macFirst bool
	// library derives keys. It also encrypts, but only whole messages, into new memory.
	library etype.EType
	// mac is the length of a checksum, and of the integrity check after a ciphertext, in bytes.
	mac int
	// hash is the hash function of the checksums.
	hash    func() hash.Hash
	hashers sync.Pool // of *hasher
}

var profiles = []*profile{
	{etype: AES128SHA1, name: "aes128-cts-hmac-sha1-96", key: 16, macFirst: true, library: crypto.Aes128CtsHmacSha96{}},
	{etype: AES256SHA1, name: "aes256-cts-hmac-sha1-96", key: 32, macFirst: true, library: crypto.Aes256CtsHmacSha96{}},
	{etype: AES128SHA2, name: "aes128-cts-hmac-sha256-128", key: 16, library: crypto.Aes128CtsHmacSha256128{}},
	{etype: AES256SHA2, name: "aes256-cts-hmac-sha384-192", key: 32, library: crypto.Aes256CtsHmacSha384192{}},
}

func init() {
	for _, p := range profiles {
		p.mac, p.hash = p.library.GetHMACBitLength()/8, p.library.GetHashFunc()
		p.hashers.New = func() any { return newHasher(p.hash()) }
	}
}

// profile returns the description of e, or nil if e is not supported.
func (e EType) profile() *profile {
	for _, p := range profiles {
		if p.etype == e {
			return p
		}
	}
	return nil
}

// String returns the name that the type has in krb5.conf.
func (e EType) String() string {
	if p := e.profile(); p != nil {
		return p.name
	}
	return fmt.Sprintf("encryption type %d", int32(e))
}

// A key is a protocol key: a principal's key, a session key, or a subkey.
type key struct {
	*profile
	value []byte
}

// newKey returns the key with the given type and value, which come from a peer or a file. It
// returns an error if the type is not supported, or if the length is wrong.
func newKey(e EType, value []byte) (key, error) {
	p := e.profile()
	if p == nil {
		return key{}, fmt.Errorf("%v is not served, only those of AES are (17 to 20)", e)
	}
	if len(value) != p.key {
		return key{}, fmt.Errorf("a key of %d bytes for %v, which has %d", len(value), e, p.key)
	}
	return key{p, value}, nil
}

// freshKey returns a random key of k's type. Every bit string is a valid key (RFC 3962 §6, RFC
// 8009 §5).
func (k key) freshKey() key {
	fresh := key{k.profile, make([]byte, k.profile.key)}
	rand.Read(fresh.value)
	return fresh
}

// derive returns the key for one use of k. use is a constant of RFC 3961 §5.3.
func (k key) derive(use []byte) []byte {
	derived, err := k.library.DeriveKey(k.value, use)
	if err != nil {
		panic(err) // newKey checks the lengths of keys
	}
	return derived
}

// checksumKey derives the key for checksums. usage is the key usage number (RFC 4120 §7.5.1, RFC
// 4121 §2).
func (k key) checksumKey(usage uint32) *macKey {
	return newMACKey(k.profile, k.derive(common.GetUsageKc(usage)))
}

// cipherKeys derives the keys for encryption. usage is as in checksumKey.
func (k key) cipherKeys(usage uint32) *cipherKeys {
	return &cipherKeys{
		cts:       newCTSKey(k.derive(common.GetUsageKe(usage))),
		integrity: newMACKey(k.profile, k.derive(common.GetUsageKi(usage))),
	}
}

// encrypt returns the encrypted plaintext (RFC 3961 §5.3, RFC 8009 §5). usage is as in checksumKey.
func (k key) encrypt(usage uint32, plaintext []byte) []byte {
	out := make([]byte, blockSize+len(plaintext), blockSize+len(plaintext)+k.mac)
	rand.Read(out[:blockSize])
	copy(out[blockSize:], plaintext)
	return k.cipherKeys(usage).seal(out, [][]byte{out})
}

// decrypt is the inverse of encrypt.
func (k key) decrypt(usage uint32, ciphertext []byte) (plaintext []byte, ok bool) {
	return k.cipherKeys(usage).decrypt(ciphertext)
}

// cipherKeys has the keys for encryption and for the integrity check, for one usage of a protocol
// key.
type cipherKeys struct {
	cts       *ctsKey
	integrity *macKey
}

// seal encrypts pieces in place and appends the integrity check to dst. The pieces must begin with
// the confounder.
func (k *cipherKeys) seal(dst []byte, pieces [][]byte) []byte {
	if k.integrity.profile.macFirst {
		dst = k.integrity.appendMAC(dst, nil, pieces, nil)
		k.cts.encrypt(pieces)
		return dst
	}
	k.cts.encrypt(pieces)
	return k.integrity.appendMAC(dst, zeros[:], pieces, nil) // zeros is the initialization vector
}

// open is the inverse of seal. It decrypts sealed in place. If it returns false, the content of
// sealed is undefined.
func (k *cipherKeys) open(sealed, mac []byte) bool {
	if k.integrity.profile.macFirst {
		k.cts.decrypt(sealed)
		return k.integrity.matches(mac, sealed, nil, nil)
	}
	if !k.integrity.matches(mac, zeros[:], nil, sealed) {
		return false
	}
	k.cts.decrypt(sealed)
	return true
}

// decrypt is the inverse of key.encrypt. It leaves ciphertext unchanged. It returns false if
// ciphertext was not made with these keys.
func (k *cipherKeys) decrypt(ciphertext []byte) (plaintext []byte, ok bool) {
	n := len(ciphertext) - k.integrity.profile.mac
	if n < blockSize {
		return nil, false
	}
	out := append([]byte(nil), ciphertext[:n]...)
	if !k.open(out, ciphertext[n:]) {
		return nil, false
	}
	return out[blockSize:], true
}

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
