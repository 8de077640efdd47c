package wire

// The methods in this file make the header of a reply of version 2 to a call whose offer is rdma_provisional_writes
// and rdma_provisional_reply (§6.3.5, §6.3.7). A reply of version 2 always returns the Write list, and returns the
// Reply chunk only if it uses it (§6.3.8, §6.3.10).

// ReplySize2 returns the length, in bytes, of the header of a reply of type t to the call: RDMA2_REPLY_INLINE, or
// RDMA2_REPLY_EXTERNAL if the call offers a Reply chunk.
func (o *Offer) ReplySize2(t HeaderType) int {
	n := PrefixSize + len(o.Writes.chunks) + 4
	if t == TypeReplyExternal {
		n += 4 + 4 + len(o.Reply.segments)
	}
	return n
}

// PutReply2 writes the header of the call's reply to the first ReplySize2(p.Type) bytes of b. used[i] is the number of
// bytes written to Write chunk i; for a chunk without an entry in used, the number is 0. replied is the number of bytes
// written to the Reply chunk. Segments keep their handles and offsets; their lengths say what was written (§4.5.2.1),
// which is all of a chunk if more is said. PutReply2 panics if p.Type is RDMA2_REPLY_EXTERNAL and the call offers no Reply
// chunk.
func (o *Offer) PutReply2(b []byte, p Prefix2, used []uint64, replied uint64) {
	if p.Type == TypeReplyExternal && !o.Reply.Present {
		panic("rdma: an RDMA2_REPLY_EXTERNAL to a call that offers no Reply chunk")
	}
	p.Put(b)
	at := PrefixSize
	end := at + copy(b[at:], o.encoded[:len(o.Writes.chunks)+4])
	for range o.Writes.Len() {
		first := uint64(0)
		if len(used) > 0 {
			first, used = used[0], used[1:]
		}
		at += 4 + putLengths(b[at+4:], first)
	}
	if p.Type == TypeReplyExternal {
		copy(b[end:], o.encoded[len(o.Writes.chunks)+4:])
		putLengths(b[end+4:], replied)
	}
}
