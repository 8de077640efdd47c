package local

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// The verifier of an exclusive create (RFC 1813 §3.3.8) is kept in the new
// file's times until the client's SETATTR sets those: there it survives a
// restart. Half of it goes into the seconds of either time, without the top
// bit, which not every file system can store; fractions of a second would get
// lost on some.

func exclusiveTimes(v [8]byte) (atime, mtime int64) {
	return int64(binary.BigEndian.Uint32(v[4:]) & 0x7fffffff), int64(binary.BigEndian.Uint32(v[:]) & 0x7fffffff)
}

func exclusiveAttr(v [8]byte) *vfs.SetAttr {
	a, m := exclusiveTimes(v)
	return &vfs.SetAttr{AtimeHow: vfs.ClientTime, Atime: vfs.Time{Sec: a}, MtimeHow: vfs.ClientTime, Mtime: vfs.Time{Sec: m}}
}

// exclusiveMatches says that st is a file which an exclusive create with v made
// and nobody has touched since.
func exclusiveMatches(st *unix.Stat_t, v [8]byte) bool {
	a, m := exclusiveTimes(v)
	return st.Size == 0 && st.Atim.Sec == a && st.Mtim.Sec == m && st.Mtim.Nsec == 0
}
