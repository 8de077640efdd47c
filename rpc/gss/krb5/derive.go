package krb5

import (
	"crypto/aes"
	"crypto/hmac"
	"encoding/binary"
)

// The last byte of the constants from which keys are derived (RFC 3961 §5.3).
const (
	forChecksum   = 0x99
	forEncryption = 0xAA
	forIntegrity  = 0x55
)

// derive returns the key of n bytes for one usage and purpose of a protocol key. purpose is one of
// the constants above.
func (p *profile) derive(key []byte, usage uint32, purpose byte, n int) []byte {
	constant := append(binary.BigEndian.AppendUint32(nil, usage), purpose)
	if p.macFirst {
		return deriveByCipher(key, constant, n)
	}
	return p.deriveByHash(key, constant, n)
}

// deriveByCipher is the function DK of RFC 3961 §5.1 with AES: it encrypts the constant, folded to
// one block (nfold), then the resulting block, and so on, and concatenates the results.
func deriveByCipher(key, constant []byte, n int) []byte {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // newKey checks the lengths of keys
	}
	var out []byte
	step := nfold(constant, aes.BlockSize)
	for len(out) < n {
		block.Encrypt(step, step)
		out = append(out, step...)
	}
	return out[:n]
}

// deriveByHash is the function KDF-HMAC-SHA2 of RFC 8009 §3. It computes only one block, which is
// long enough for every key.
func (p *profile) deriveByHash(key, label []byte, n int) []byte {
	h := hmac.New(p.hash, key)
	h.Write([]byte{0, 0, 0, 1})
	h.Write(label)
	h.Write([]byte{0})
	h.Write(binary.BigEndian.AppendUint32(nil, uint32(8*n)))
	return h.Sum(nil)[:n]
}
