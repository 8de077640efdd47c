package wire

import "encoding/binary"

// An Offer is what a call offers for its reply, in place: all that is needed of its
// header once its Read list was read, and what comes back in the Reply's.
type Offer struct {
	Writes WriteList
	Reply  ReplyChunk
}

// ReplySize is the length of the header of a Reply to the call, in bytes: it returns the
// whole Write list and the Reply chunk (RFC 8166 §4.3).
func (o *Offer) ReplySize() int {
	return PrefixSize + 4 + o.Writes.size() + o.Reply.size()
}

// PutReply writes the header of a Reply to the call to the first ReplySize bytes of b: of
// Write chunk i the first used[i] bytes were written, of later chunks none, of the
// Reply chunk the first replied bytes (RFC 8166 §3.4.6, §4.3.3).
func (o *Offer) PutReply(b []byte, p Prefix, used []uint64, replied uint64) {
	p.Put(b)
	binary.BigEndian.PutUint32(b[PrefixSize:], 0) // no Read list
	n := PrefixSize + 4
	n += o.Writes.putUsed(b[n:], used)
	o.Reply.putUsed(b[n:], replied)
}
