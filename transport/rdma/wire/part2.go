package wire

import "encoding/binary"

// PartSize is the length of the header of RDMA2_CALL_MIDDLE and RDMA2_REPLY_MIDDLE, in bytes.
const PartSize = PrefixSize + 4

// MinFragment is the length of the shortest part of an RPC message, in bytes: the body of each header type
// that carries a part ends with the part's first word (rdma_rpc_first_word, §6.3).
const MinFragment = 4

// A Part2 is the decoded Transport stream of RDMA2_CALL_MIDDLE and RDMA2_REPLY_MIDDLE (§6.3.6, §6.3.9): a part
// of an RPC message, other than the last one, follows it.
type Part2 struct {
	Prefix2
	// Remaining is the number of bytes of the RPC message that come after this part.
	Remaining uint32
}

// Parse reads the header at the start of b. The part begins at PartSize. Whatever the outcome, Parse sets the
// prefix. A Sequence checks Remaining and the part's length.
func (h *Part2) Parse(b []byte) Refusal {
	*h = Part2{}
	var ok bool
	if h.Prefix2, ok = ParsePrefix2(b); !ok {
		return Refusal{Why: whyTruncated}
	}
	if len(b) < PartSize {
		return h.badXDR(whyTruncated)
	}
	h.Remaining = binary.BigEndian.Uint32(b[PrefixSize:])
	return Refusal{}
}

// Put writes the header to the first PartSize bytes of b.
func (h Part2) Put(b []byte) {
	h.Prefix2.Put(b)
	binary.BigEndian.PutUint32(b[PrefixSize:], h.Remaining)
}
