package wire

import "encoding/binary"

// An Offer holds the chunks that a call offers for its reply, as views of the message. They
// are the only part of the header that is needed after the Read list, and the reply returns
// them.
type Offer struct {
	Writes WriteList
	Reply  ReplyChunk
}

// ReplySize returns the length of the header of a reply to the call, in bytes. That header
// returns the whole Write list and the Reply chunk (RFC 8166 §4.3).
func (o *Offer) ReplySize() int {
	return PrefixSize + 4 + o.Writes.size() + o.Reply.size()
}

// PutReply writes the header of a reply to the call to the first ReplySize bytes of b.
// used[i] is the number of bytes written to Write chunk i; later chunks got none. replied
// is the number of bytes written to the Reply chunk (RFC 8166 §3.4.6, §4.3.3).
func (o *Offer) PutReply(b []byte, p Prefix, used []uint64, replied uint64) {
	p.Put(b)
	binary.BigEndian.PutUint32(b[PrefixSize:], 0) // no Read list
	n := PrefixSize + 4
	n += o.Writes.putUsed(b[n:], used)
	o.Reply.putUsed(b[n:], replied)
}
