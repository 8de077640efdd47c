package vfs

import "encoding/hex"

// MaxHandle is the longest handle of a FileSystem, in bytes. It leaves a
// protocol with 64-byte handles (RFC 1813 §2.4) room for an export's identity
// and a seal.
const MaxHandle = 47

// A Handle names a file for as long as the file exists, over restarts of the
// process too. It is a value: comparable, free of pointers, usable as a map's
// key. The zero Handle names nothing.
type Handle struct {
	n uint8
	b [MaxHandle]byte
}

// MakeHandle returns the handle with the given bytes; false where they are
// none or too many.
func MakeHandle(b []byte) (Handle, bool) {
	var h Handle
	if len(b) == 0 || len(b) > MaxHandle {
		return h, false
	}
	h.n = uint8(copy(h.b[:], b))
	return h, true
}

// Bytes are the handle's bytes. They alias h.
func (h *Handle) Bytes() []byte { return h.b[:h.n:h.n] }

// Append appends the handle's bytes to b.
func (h *Handle) Append(b []byte) []byte { return append(b, h.b[:h.n]...) }

// Len is the handle's length in bytes.
func (h *Handle) Len() int { return int(h.n) }

// IsZero says that h names nothing.
func (h Handle) IsZero() bool { return h.n == 0 }

// String is for logs and tests.
func (h Handle) String() string { return hex.EncodeToString(h.b[:h.n]) }
