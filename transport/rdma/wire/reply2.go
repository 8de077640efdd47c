package wire

import "encoding/binary"

// MinReplyInline is the length of the shortest header of RDMA2_REPLY_INLINE, in bytes: the prefix and an
// empty Write list.
const MinReplyInline = PrefixSize + 4

// A Reply2 is the decoded Transport stream of RDMA2_REPLY_INLINE and RDMA2_REPLY_EXTERNAL (§6.3.8, §6.3.10).
// Its chunks alias the message.
type Reply2 struct {
	Prefix2
	// Writes and Reply are the chunks as the Responder returns them: the lengths of their segments say what it wrote.
	// The Reply chunk is absent in RDMA2_REPLY_INLINE.
	Writes WriteList
	Reply  ReplyChunk
	// Size is the header's length in bytes. The Payload stream of RDMA2_REPLY_INLINE starts there. In
	// RDMA2_REPLY_EXTERNAL, bytes behind the header have no meaning.
	Size int
}

// IsChunkless2 reports whether b begins with a whole header of RDMA2_REPLY_INLINE whose Write list is empty. The header is
// MinReplyInline bytes long then. Most replies have no chunks, and IsChunkless2 is faster than Reply2.Parse. The caller
// knows the type.
func IsChunkless2(b []byte) bool {
	return len(b) >= MinReplyInline && binary.BigEndian.Uint32(b[PrefixSize:]) == 0
}

// Parse reads the header at the start of b, a message of either type. It does not compare the chunks with
// those that the call offered. Nothing goes back for a bad reply: its receiver ends the call. Whatever the
// outcome, Parse sets the prefix. It allocates nothing.
func (h *Reply2) Parse(b []byte) Refusal {
	*h = Reply2{}
	var ok bool
	if h.Prefix2, ok = ParsePrefix2(b); !ok {
		return Refusal{Why: whyTruncated}
	}
	at := PrefixSize
	n, count, err := parseList(b[at:], sizeOfChunk)
	if err != nil {
		return h.badXDR(why(err))
	}
	writes := WriteList{b[at : at+n], count}
	at += n + 4
	if h.Type == TypeReplyExternal {
		if h.Reply, n, err = parseReplyChunk(b[at:]); err != nil {
			return h.badXDR(why(err))
		}
		if !h.Reply.Present {
			return h.badXDR("an RDMA2_REPLY_EXTERNAL has no Reply chunk")
		}
		at += n
	}
	h.Writes, h.Size = writes, at
	return Refusal{}
}

// JudgeMessage checks the start of a whole RPC message against the prefix of the message that carried it, or
// its last part: the XIDs are the same, and a call is a call (§7.2). A whole RPC message has at least the two
// words that are compared. Only tests call JudgeMessage: the transport makes these checks when it decodes the RPC
// message.
func (p Prefix2) JudgeMessage(message []byte) Refusal {
	const call, reply = 0, 1 // msg_type of RFC 5531 §9
	want := uint32(call)
	if p.Type.IsReply() {
		want = reply
	}
	switch {
	case len(message) < 8:
		return p.badXDR("the RPC message is shorter than its XID and type")
	case binary.BigEndian.Uint32(message) != p.XID:
		return p.badXDR("the XID of the RPC message is not that of the header")
	case binary.BigEndian.Uint32(message[4:]) != want:
		return p.badXDR("the RPC message is not of the kind that the header type says")
	}
	return Refusal{}
}
