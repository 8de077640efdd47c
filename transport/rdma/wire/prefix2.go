package wire

// Version2 is the protocol version of draft-ietf-nfsv4-rpcrdma-version-two-07.
const Version2 = 2

// DefaultInline2 is the inline threshold of version 2 in both directions, in bytes, unless properties
// change it (§4.2.2).
const DefaultInline2 = 4096

// MaxFirstMessage is the length of the longest message, in bytes, that a client may send before the
// version is settled (§4.3).
const MaxFirstMessage = 1024

// A Prefix2 is the prefix of a message of version 2: PrefixSize bytes (§6.2.1, §6.4). Its words stand where
// those of Prefix stand. The third one means something else, so the two types do not convert.
type Prefix2 struct {
	// XID is that of the call or reply, or, in an RDMA2_ERROR, that of the refused message. RDMA2_GRANT has
	// XID 0.
	XID     uint32
	Version uint32
	// Limit is the number of messages, modulo 2^32 and counted from the start of the connection, that the
	// sender of this message lets its peer send in all (rdma_credit, §4.2.1).
	Limit uint32
	Type  HeaderType
}

// ParsePrefix2 reads the first PrefixSize bytes of b. ok is false if b is shorter. The receiver of a
// message without a whole prefix drops it without an answer (§7).
func ParsePrefix2(b []byte) (p Prefix2, ok bool) {
	one, ok := ParsePrefix(b)
	return Prefix2{one.XID, one.Version, one.Credits, HeaderType(one.Proc)}, ok
}

// Put writes p to the first PrefixSize bytes of b.
func (p Prefix2) Put(b []byte) { Prefix{p.XID, p.Version, p.Limit, Proc(p.Type)}.Put(b) }

// PutGrant writes a whole RDMA2_GRANT to the first PrefixSize bytes of b. Its XID is 0 (§6.3.2).
func PutGrant(b []byte, limit uint32) { Prefix2{0, Version2, limit, TypeGrant}.Put(b) }

// JudgeVersion checks the version of a message, before any other word of it is used. The receiver supports
// the versions from low to high. settled is the version of the connection, or 0 if none is settled yet. A
// version that is not supported is refused as such even if another one is settled (§7.1.1, §7.1.2).
//
// An RDMA2_ERROR passes whatever its version is: it has that of the message which it refuses (§7), its type and its code
// are the same in all versions, and two peers that answered errors with errors would not stop. ParseErrorBody2
// says what it means. Its Limit is one of version 2 only if the whole message is of version 2.
func (p Prefix2) JudgeVersion(settled, low, high uint32) Refusal {
	switch {
	case p.Type == TypeError:
		return Refusal{}
	case p.Version < low || p.Version > high:
		return Refusal{ErrorBody2{Code: Err2Vers, Low: low, High: high}, "the version is not supported"}
	case settled != 0 && p.Version != settled:
		return Refusal{ErrorBody2{Code: Err2VersMismatch}, "the version is not the connection's"}
	}
	return Refusal{}
}

// JudgeType checks the type of a message of version 2 (§6.1, §7.1.3).
func (p Prefix2) JudgeType() Refusal {
	if !p.Type.Known() {
		return Refusal{ErrorBody2{Code: Err2InvalHtype}, "the header type is unknown"}
	}
	return Refusal{}
}
