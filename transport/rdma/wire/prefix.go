package wire

import "encoding/binary"

// PrefixSize is the length of the words that all versions of RPC-over-RDMA
// share, in bytes (RFC 8166 §4.2, §7).
const PrefixSize = 16

// Version1 is the protocol version of RFC 8166.
const Version1 = 1

// Proc is the type of a message, and selects the body behind the prefix: rdma_proc of RFC
// 8166 §4.1.2.
type Proc uint32

// Procedures of version 1. MSGP and DONE are obsolete and never sent (RFC 8166 §4.6).
const (
	ProcMsg   Proc = 0
	ProcNoMsg Proc = 1
	ProcMsgP  Proc = 2
	ProcDone  Proc = 3
	ProcError Proc = 4
)

// String names the procedure as RFC 8166 does.
func (p Proc) String() string {
	switch p {
	case ProcMsg:
		return "RDMA_MSG"
	case ProcNoMsg:
		return "RDMA_NOMSG"
	case ProcMsgP:
		return "RDMA_MSGP"
	case ProcDone:
		return "RDMA_DONE"
	case ProcError:
		return "RDMA_ERROR"
	}
	return "rdma_proc(?)"
}

// A Prefix is the first four words of every message of every version.
type Prefix struct {
	XID     uint32
	Version uint32
	// Credits is the requested number in a call, and the granted number in a reply or
	// RDMA_ERROR.
	Credits uint32
	Proc    Proc
}

// ParsePrefix reads the first PrefixSize bytes of b. ok is false if b is shorter.
func ParsePrefix(b []byte) (p Prefix, ok bool) {
	if len(b) < PrefixSize {
		return Prefix{}, false
	}
	return Prefix{
		XID:     binary.BigEndian.Uint32(b),
		Version: binary.BigEndian.Uint32(b[4:]),
		Credits: binary.BigEndian.Uint32(b[8:]),
		Proc:    Proc(binary.BigEndian.Uint32(b[12:])),
	}, true
}

// Put writes p to the first PrefixSize bytes of b.
func (p Prefix) Put(b []byte) {
	binary.BigEndian.PutUint32(b, p.XID)
	binary.BigEndian.PutUint32(b[4:], p.Version)
	binary.BigEndian.PutUint32(b[8:], p.Credits)
	binary.BigEndian.PutUint32(b[12:], uint32(p.Proc))
}
