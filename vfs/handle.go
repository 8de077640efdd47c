package vfs

import (
	"encoding/hex"
)

// MaxHandle is the longest handle of a FileSystem, in bytes. A protocol with 64-byte handles (RFC
// 1813 §2.4) then has room for an export's identity and an authentication code.
const MaxHandle = 47

// A Handle names a file for as long as the file exists, also after a restart of the process. It
// is a comparable value without pointers, usable as a map key. The zero Handle names nothing.
type Handle struct {
	n uint8
	b [MaxHandle]byte
}

// MakeHandle returns the handle with the given bytes. It returns false if b is empty or longer
// than MaxHandle.
func MakeHandle(b []byte) (Handle, bool) {
	var h Handle
	if len(b) == 0 || len(b) > MaxHandle {
		return h, false
	}
	h.n = uint8(copy(h.b[:], b))
	return h, true
}

// Bytes returns the handle's bytes. The slice shares h's memory.
func (h *Handle) Bytes() []byte { return h.b[:h.n:h.n] }

// Append appends the handle's bytes to b.
func (h *Handle) Append(b []byte) []byte { return append(b, h.b[:h.n]...) }

// Len returns the handle's length in bytes.
func (h *Handle) Len() int { return int(h.n) }

// IsZero reports whether h names nothing.
func (h Handle) IsZero() bool { return h.n == 0 }

// String returns the handle in hexadecimal, for logs and tests.
func (h Handle) String() string { return hex.EncodeToString(h.b[:h.n]) }
