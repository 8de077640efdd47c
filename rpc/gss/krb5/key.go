package krb5

import (
	"crypto/rand"
	"fmt"
)

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

// checksumKey derives the key for checksums. usage is the key usage number (RFC 4120 §7.5.1, RFC
// 4121 §2).
func (k key) checksumKey(usage uint32) *macKey {
	return newMACKey(k.profile, k.derive(k.value, usage, forChecksum, k.macKey))
}

// cipherKeys derives the keys for encryption. usage is the key usage number (RFC 4120 §7.5.1, RFC
// 4121 §2).
func (k key) cipherKeys(usage uint32) *cipherKeys {
	return &cipherKeys{
		cts:       newCTSKey(k.derive(k.value, usage, forEncryption, k.profile.key)),
		integrity: newMACKey(k.profile, k.derive(k.value, usage, forIntegrity, k.macKey)),
	}
}

// encrypt returns the encrypted plaintext (RFC 3961 §5.3, RFC 8009 §5). usage is the key usage
// number (RFC 4120 §7.5.1, RFC 4121 §2).
func (k key) encrypt(usage uint32, plaintext []byte) []byte {
	out := make([]byte, blockSize+len(plaintext), blockSize+len(plaintext)+k.mac)
	rand.Read(out[:blockSize])
	copy(out[blockSize:], plaintext)
	return k.cipherKeys(usage).seal(out, [][]byte{out})
}

// decrypt is the inverse of encrypt. It leaves ciphertext unchanged. It returns false if
// ciphertext was not made by this key for this usage.
func (k key) decrypt(usage uint32, ciphertext []byte) (plaintext []byte, ok bool) {
	n := len(ciphertext) - k.mac
	if n < blockSize {
		return nil, false
	}
	out := append([]byte(nil), ciphertext[:n]...)
	if !k.cipherKeys(usage).open([][]byte{out}, ciphertext[n:]) {
		return nil, false
	}
	return out[blockSize:], true
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
	h := k.integrity.start()
	if k.integrity.profile.macFirst {
		h.writeAll(pieces)
		k.cts.encrypt(pieces)
	} else {
		k.cts.encrypt(pieces)
		h.Write(zeros[:]) // the initialization vector
		h.writeAll(pieces)
	}
	return k.integrity.appendMAC(dst, h)
}

// open is the inverse of seal. If it returns false, the contents of pieces are undefined.
func (k *cipherKeys) open(pieces [][]byte, mac []byte) bool {
	h := k.integrity.start()
	if k.integrity.profile.macFirst {
		k.cts.decrypt(pieces)
		h.writeAll(pieces)
		return k.integrity.matches(mac, h)
	}
	h.Write(zeros[:])
	h.writeAll(pieces)
	if !k.integrity.matches(mac, h) {
		return false
	}
	k.cts.decrypt(pieces)
	return true
}
