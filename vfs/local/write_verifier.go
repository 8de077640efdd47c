package local

import (
	"crypto/rand"
	"encoding/binary"
)

// newVerifier changes the verifier. It tells clients that data which they wrote and did not commit
// may be lost.
func (fs *FS) newVerifier() {
	var b [8]byte
	for {
		rand.Read(b[:])
		if v := binary.BigEndian.Uint64(b[:]); v != 0 && v != fs.verifier.Swap(v) {
			return
		}
	}
}

// Verifier implements vfs.FileSystem.
func (fs *FS) Verifier() (v [8]byte) {
	binary.BigEndian.PutUint64(v[:], fs.verifier.Load())
	return v
}
