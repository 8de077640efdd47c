package krb5

import (
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"fmt"
	"hash"
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
	// mac is the length of a checksum, and of the integrity check after a ciphertext. macKey is the
	// length of the keys for both. Both are in bytes.
	mac, macKey int
	// hash is the hash function of the checksums.
	hash func() hash.Hash
	// macFirst is true if the integrity check is computed over the plaintext (RFC 3962), and false
	// if it is computed over the ciphertext (RFC 8009).
	macFirst bool
	hashers  *hasherPool
}

var profiles = []*profile{
	{etype: AES128SHA1, name: "aes128-cts-hmac-sha1-96", key: 16, mac: 12, macKey: 16, hash: sha1.New, macFirst: true},
	{etype: AES256SHA1, name: "aes256-cts-hmac-sha1-96", key: 32, mac: 12, macKey: 32, hash: sha1.New, macFirst: true},
	{etype: AES128SHA2, name: "aes128-cts-hmac-sha256-128", key: 16, mac: 16, macKey: 16, hash: sha256.New},
	{etype: AES256SHA2, name: "aes256-cts-hmac-sha384-192", key: 32, mac: 24, macKey: 24, hash: sha512.New384},
}

func init() {
	for _, p := range profiles {
		p.hashers = newHasherPool(p.hash)
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
