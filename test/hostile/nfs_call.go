package hostile

import (
	"encoding/binary"
)

// Numbers of ONC RPC (RFC 5531) and of the NFS and MOUNT programs (RFC 1813).
const (
	nfsProgram   = 100003
	mountProgram = 100005
	version3     = 3

	procNull        = 0
	procGetattr     = 1
	procLookup      = 3
	procRead        = 6
	procWrite       = 7
	procReaddir     = 16
	procReaddirplus = 17

	procMountDump   = 2
	procMountExport = 5
)

// Values of stable_how (RFC 1813 §3.3.7).
const (
	unstable = 0
	fileSync = 2
)

var be = binary.BigEndian

// user is the uid and gid of hostile peers' calls.
const user = 1000

// call returns a call with AUTH_SYS (RFC 5531 §9, §8.1) and no arguments yet.
func call(xid, program, procedure uint32) []byte {
	var b []byte
	for _, word := range []uint32{
		xid, 0, 2, program, version3, procedure,
		1, 5 * 4, 0, 0, user, user, 0, // AUTH_SYS: stamp, machine, uid, gid, groups
		0, 0, // no verifier
	} {
		b = be.AppendUint32(b, word)
	}
	return b
}

// opaque appends a variable-length opaque item to b: length, bytes and padding.
func opaque(b, item []byte) []byte {
	b = be.AppendUint32(b, uint32(len(item)))
	b = append(b, item...)
	return append(b, make([]byte, -len(item)&3)...)
}

func nullCall(xid uint32) []byte { return call(xid, nfsProgram, procNull) }

func getattrCall(xid uint32, file []byte) []byte {
	return opaque(call(xid, nfsProgram, procGetattr), file)
}

func lookupCall(xid uint32, dir []byte, name string) []byte {
	return opaque(opaque(call(xid, nfsProgram, procLookup), dir), []byte(name))
}

func readCall(xid uint32, file []byte, offset uint64, count uint32) []byte {
	b := opaque(call(xid, nfsProgram, procRead), file)
	b = be.AppendUint64(b, offset)
	return be.AppendUint32(b, count)
}

// writeHead returns the part of a WRITE call that precedes the data. The length of the data is n
// bytes.
func writeHead(xid uint32, file []byte, offset uint64, n, stable uint32) []byte {
	b := opaque(call(xid, nfsProgram, procWrite), file)
	b = be.AppendUint64(b, offset)
	b = be.AppendUint32(b, n)
	b = be.AppendUint32(b, stable)
	return be.AppendUint32(b, n)
}

// writeCall returns a WRITE call of n zero bytes.
func writeCall(xid uint32, file []byte, offset uint64, n, stable uint32) []byte {
	b := writeHead(xid, file, offset, n, stable)
	return append(b, make([]byte, n+-n&3)...)
}

// readdirplusCall returns a READDIRPLUS call that continues at a cookie, with a reply of at most
// `count` bytes.
func readdirplusCall(xid uint32, dir []byte, cookie uint64, verifier [8]byte, count uint32) []byte {
	b := opaque(call(xid, nfsProgram, procReaddirplus), dir)
	b = be.AppendUint64(b, cookie)
	b = append(b, verifier[:]...)
	b = be.AppendUint32(b, count)
	return be.AppendUint32(b, count)
}

// readdirCall returns a READDIR call from the start of a directory, with a reply of at most `count`
// bytes.
func readdirCall(xid uint32, dir []byte, count uint32) []byte {
	b := opaque(call(xid, nfsProgram, procReaddir), dir)
	b = append(b, make([]byte, 16)...) // cookie, verifier
	return be.AppendUint32(b, count)
}

// DumpCall and ExportCall return calls of the MOUNT protocol that every client may make.
func DumpCall(xid uint32) []byte   { return call(xid, mountProgram, procMountDump) }
func ExportCall(xid uint32) []byte { return call(xid, mountProgram, procMountExport) }

// Each of these functions returns a function that returns a call with the given XID. ReaddirCall
// and ReaddirplusCall are for calls that list a directory, with replies of at most `count` bytes.
// ReadCall is for a READ of `count` bytes, and WriteCall for a WRITE of `count` bytes to stable
// storage.
func ReaddirCall(dir []byte, count uint32) func(xid uint32) []byte {
	return func(xid uint32) []byte { return readdirCall(xid, dir, count) }
}

func ReaddirplusCall(dir []byte, count uint32) func(xid uint32) []byte {
	return func(xid uint32) []byte { return readdirplusCall(xid, dir, 0, [8]byte{}, count) }
}

func ReadCall(file []byte, count uint32) func(xid uint32) []byte {
	return func(xid uint32) []byte { return readCall(xid, file, 0, count) }
}

func WriteCall(file []byte, count uint32) func(xid uint32) []byte {
	return func(xid uint32) []byte { return writeCall(xid, file, 0, count, fileSync) }
}
