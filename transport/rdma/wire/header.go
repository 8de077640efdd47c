package wire

import (
	"encoding/binary"
	"errors"
)

// Reasons why a header cannot be decoded. The values are allocated once, because a peer can
// send any number of bad headers.
var (
	ErrTruncated     = errors.New("rdma: a chunk list reaches beyond the message")
	ErrDiscriminator = errors.New("rdma: the discriminator of a chunk list is neither 0 nor 1")
)

// MinHeader is the length of the shortest header that is decoded (RFC 8166 §4.5): the
// prefix and three empty chunk fields.
const MinHeader = PrefixSize + 12

// A Header is the decoded Transport stream of RDMA_MSG and RDMA_NOMSG (RFC 8166 §4.3). Its
// lists alias the message.
type Header struct {
	Prefix
	Reads ReadList
	Offer
	// Size is the header's length in bytes. The Payload stream starts there.
	Size int
}

// Parse reads the header at the start of b, which holds at least MinHeader bytes. It checks only
// whether the lists can be decoded. The error is ErrTruncated or ErrDiscriminator; even then Parse
// sets the prefix. It allocates nothing.
func (h *Header) Parse(b []byte) error {
	*h = Header{}
	var ok bool
	if h.Prefix, ok = ParsePrefix(b); !ok {
		return ErrTruncated
	}
	at := PrefixSize
	n, _, err := parseList(b[at:], sizeOfReadSegment)
	if err != nil {
		return err
	}
	reads := ReadList{b[at : at+n]}
	at += n + 4
	offer, size, err := parseOffer(b[at:])
	if err != nil {
		return err
	}
	h.Reads, h.Offer, h.Size = reads, offer, at+size
	return nil
}

// segments calls yield for each segment of the lists, until yield returns false.
func (h *Header) segments(yield func(Segment) bool) {
	for i := range h.Reads.Len() {
		if !yield(h.Reads.At(i).Segment) {
			return
		}
	}
	h.Offer.segments(yield)
}

// SoleHandle returns the handle of the segments of h. ok is false if there are none, or if they have
// different handles. The reply invalidates a handle (Send with Invalidate) only if all segments have
// it.
func (h *Header) SoleHandle() (handle uint32, ok bool) {
	if h.Size == MinHeader {
		return 0, false // most calls have no chunks
	}
	for s := range h.segments {
		if ok && s.Handle != handle {
			return 0, false
		}
		handle, ok = s.Handle, true
	}
	return handle, ok
}

// Wraps reports whether a segment of h reaches beyond the last 64-bit offset.
func (h *Header) Wraps() bool {
	for s := range h.segments {
		if s.wraps() {
			return true
		}
	}
	return false
}

// An Offer holds the chunks that a call offers for its reply. The reply has to return them. They
// alias the message.
type Offer struct {
	Writes  WriteList
	Reply   ReplyChunk
	encoded []byte // both, as in the message
}

// parseOffer reads a Write list and a Reply chunk from the start of b, and returns their length.
func parseOffer(b []byte) (o Offer, n int, err error) {
	at, count, err := parseList(b, sizeOfChunk)
	if err != nil {
		return Offer{}, 0, err
	}
	writes := WriteList{b[:at], count}
	at += 4
	reply, n, err := parseReplyChunk(b[at:])
	if err != nil {
		return Offer{}, 0, err
	}
	return Offer{writes, reply, b[:at+n]}, at + n, nil
}

// segments calls yield for each segment of the chunks, until yield returns false.
func (o *Offer) segments(yield func(Segment) bool) {
	for l := o.Writes; ; {
		c := o.Reply.WriteChunk
		last := l.Len() == 0
		if !last {
			c = l.Next()
		}
		for i := range c.Len() {
			if !yield(c.At(i)) {
				return
			}
		}
		if last {
			return
		}
	}
}

// ReplySize returns the length of the header of a reply to the call, in bytes. That header
// returns the whole Write list and the Reply chunk (RFC 8166 §4.3).
func (o *Offer) ReplySize() int { return PrefixSize + 4 + len(o.encoded) }

// PutReply writes the header of the call's reply to the first ReplySize bytes of b. used[i] is the
// number of bytes written to Write chunk i; for a chunk without an entry in used, the number is 0.
// replied is the number of bytes written to the Reply chunk. A chunk that was not used is returned
// with lengths of 0 (RFC 8166 §3.4.6, §4.3.3).
func (o *Offer) PutReply(b []byte, p Prefix, used []uint64, replied uint64) {
	p.Put(b)
	binary.BigEndian.PutUint32(b[PrefixSize:], 0) // no Read list
	at := PrefixSize + 4
	copy(b[at:], o.encoded)
	for range o.Writes.Len() {
		first := uint64(0)
		if len(used) > 0 {
			first, used = used[0], used[1:]
		}
		at += 4 + putLengths(b[at+4:], first)
	}
	if o.Reply.Present {
		putLengths(b[at+4+4:], replied)
	}
}

// Lists holds the chunk lists of a header to be sent (RFC 8166 §4.3). The zero Lists are
// empty.
type Lists struct {
	// Reads is the Read list: the segments of all Read chunks.
	Reads []ReadSegment
	// Writes is the Write list. A chunk without segments is an empty Write chunk.
	Writes [][]Segment
	// Reply is the Reply chunk, or nil if there is none.
	Reply []Segment
}

// Size is the length of the lists on the wire, in bytes.
func (l *Lists) Size() int {
	n := len(l.Reads)*ReadSegmentSize + 3*4
	for _, c := range l.Writes {
		n += 4 + 4 + len(c)*segmentSize
	}
	if l.Reply != nil {
		n += 4 + len(l.Reply)*segmentSize
	}
	return n
}

// Put writes the lists to the first Size bytes of b. It panics if b is shorter.
func (l *Lists) Put(b []byte) {
	n := l.Size()
	_ = b[n-1]
	b = b[:0:n]
	for _, s := range l.Reads {
		b = binary.BigEndian.AppendUint32(b, 1)
		b = binary.BigEndian.AppendUint32(b, s.Position)
		b = s.appendTo(b)
	}
	b = binary.BigEndian.AppendUint32(b, 0)
	for _, c := range l.Writes {
		b = binary.BigEndian.AppendUint32(b, 1)
		b = appendChunk(b, c)
	}
	b = binary.BigEndian.AppendUint32(b, 0)
	if l.Reply == nil {
		binary.BigEndian.AppendUint32(b, 0)
		return
	}
	b = binary.BigEndian.AppendUint32(b, 1)
	appendChunk(b, l.Reply)
}

// appendChunk appends a Write chunk or Reply chunk, a counted array of segments, to b.
func appendChunk(b []byte, segments []Segment) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(segments)))
	for _, s := range segments {
		b = s.appendTo(b)
	}
	return b
}

// PrefixSize is the length of a Prefix on the wire, in bytes (RFC 8166 §4.2, §7).
const PrefixSize = 16

// Version1 is the protocol version of RFC 8166.
const Version1 = 1

// Proc is the type of a message: rdma_proc of RFC 8166 §4.1.2. It determines what follows the
// prefix.
type Proc uint32

// Procedures of version 1. MSGP and DONE are obsolete and never sent (RFC 8166 §4.6).
const (
	ProcMsg   Proc = 0
	ProcNoMsg Proc = 1
	ProcMsgP  Proc = 2
	ProcDone  Proc = 3
	ProcError Proc = 4
)

var procNames = [...]string{"RDMA_MSG", "RDMA_NOMSG", "RDMA_MSGP", "RDMA_DONE", "RDMA_ERROR"}

// String names the procedure as RFC 8166 does.
func (p Proc) String() string {
	if p < Proc(len(procNames)) {
		return procNames[p]
	}
	return "rdma_proc(?)"
}

// A Prefix is the first four words of every RPC-over-RDMA message, whatever its version.
type Prefix struct {
	XID     uint32
	Version uint32
	// Credits is the number of credits: requested in a call, granted in a reply or RDMA_ERROR.
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
