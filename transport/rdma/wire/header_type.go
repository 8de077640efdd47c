package wire

// HeaderType is the type of a message of version 2: rdma_htype of draft-ietf-nfsv4-rpcrdma-version-two-07
// §6.1. It has the place of version 1's Proc. It determines what follows the prefix, and, unlike Proc,
// whether a message belongs to a call or to a reply.
type HeaderType uint32

// The header types of version 2. Every peer must support all of them, in both roles (§6.1). The types of
// version 1 with lower numbers are not types of version 2.
const (
	TypeError          HeaderType = 4
	TypeGrant          HeaderType = 5
	TypeConnpropMiddle HeaderType = 6
	TypeConnpropFinal  HeaderType = 7
	TypeCallExternal   HeaderType = 8
	TypeCallMiddle     HeaderType = 9
	TypeCallInline     HeaderType = 10
	TypeReplyExternal  HeaderType = 11
	TypeReplyMiddle    HeaderType = 12
	TypeReplyInline    HeaderType = 13
)

var headerTypeNames = [...]string{
	TypeError:          "RDMA2_ERROR",
	TypeGrant:          "RDMA2_GRANT",
	TypeConnpropMiddle: "RDMA2_CONNPROP_MIDDLE",
	TypeConnpropFinal:  "RDMA2_CONNPROP_FINAL",
	TypeCallExternal:   "RDMA2_CALL_EXTERNAL",
	TypeCallMiddle:     "RDMA2_CALL_MIDDLE",
	TypeCallInline:     "RDMA2_CALL_INLINE",
	TypeReplyExternal:  "RDMA2_REPLY_EXTERNAL",
	TypeReplyMiddle:    "RDMA2_REPLY_MIDDLE",
	TypeReplyInline:    "RDMA2_REPLY_INLINE",
}

// String names the type as the draft does.
func (t HeaderType) String() string {
	if uint64(t) < uint64(len(headerTypeNames)) && headerTypeNames[t] != "" {
		return headerTypeNames[t]
	}
	return "rdma_htype(?)"
}

// Known reports whether t is a type of version 2. A message of another type is refused with
// RDMA2_ERR_INVAL_HTYPE (§6.1, §7.1.3).
func (t HeaderType) Known() bool { return t >= TypeError && t <= TypeReplyInline }

// IsCall reports whether a message of type t carries a call or a part of one. A Requester sends it.
func (t HeaderType) IsCall() bool { return t >= TypeCallExternal && t <= TypeCallInline }

// IsReply reports whether a message of type t carries a reply or a part of one. A Responder sends it.
func (t HeaderType) IsReply() bool { return t >= TypeReplyExternal && t <= TypeReplyInline }

// IsConnprop reports whether a message of type t carries transport properties.
func (t HeaderType) IsConnprop() bool { return t == TypeConnpropMiddle || t == TypeConnpropFinal }

// IsMiddle reports whether a message of type t carries a part of an RPC message that is not the last.
func (t HeaderType) IsMiddle() bool { return t == TypeCallMiddle || t == TypeReplyMiddle }
