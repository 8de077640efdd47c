package rdma

import "errors"

// MinHeader is the shortest header that is looked at (RFC 8166 §4.5): the
// prefix and three empty chunk fields.
const MinHeader = PrefixSize + 12

// ErrHeader is what every fault of a Transport stream wraps: a Responder answers
// it with ERR_CHUNK, a Requester drops the message (RFC 8166 §4.5).
var ErrHeader = errors.New("rdma: header cannot be decoded")

// headerError is a fault of a header; values are made once, for a peer can send
// as many bad headers as it likes.
type headerError string

func (e headerError) Error() string { return ErrHeader.Error() + ": " + string(e) }
func (e headerError) Unwrap() error { return ErrHeader }

const (
	errShortHeader   = headerError("a chunk list reaches beyond the message")
	errNoBoolean     = headerError("a discriminator is neither 0 nor 1")
	errNoPayload     = headerError("nothing holds the Payload stream")
	errTwoPayloads   = headerError("RDMA_MSG with a Position-Zero Read chunk")
	errUnalignedRead = headerError("a position is no multiple of four")
	errWraps         = headerError("a segment reaches beyond the last offset")
	errBadProc       = headerError("rdma_proc has no meaning here")
	errTooManyBytes  = headerError("the Read list moves more than any call may")
	errEcho          = headerError("the reply's header does not fit a Send")
)

// A Header is the Transport stream of RDMA_MSG and RDMA_NOMSG (RFC 8166 §4.3),
// in place: its lists alias the message.
type Header struct {
	Prefix
	Reads  ReadList
	Writes WriteList
	Reply  ReplyChunk
	// Size is the header's length, in bytes: where the Payload stream starts.
	Size int
}

// Parse reads the header at the start of b, whose first MinHeader bytes are
// there. It looks at what can be judged without knowing the role or the version;
// the prefix is set whatever the error. It allocates nothing.
func (h *Header) Parse(b []byte) error {
	*h = Header{}
	var ok bool
	if h.Prefix, ok = ParsePrefix(b); !ok {
		return errShortHeader
	}
	at := PrefixSize
	reads, n, err := ParseReadList(b[at:])
	if err != nil {
		return err
	}
	at += n
	writes, n, err := ParseWriteList(b[at:])
	if err != nil {
		return err
	}
	at += n
	reply, n, err := ParseReplyChunk(b[at:])
	if err != nil {
		return err
	}
	h.Reads, h.Writes, h.Reply, h.Size = reads, writes, reply, at+n
	return nil
}

// replySize is the length of the header of a Reply to h, which returns the whole
// Write list and the Reply chunk.
func (h *Header) replySize() int {
	return PrefixSize + 4 + h.Writes.wireSize() + h.Reply.wireSize()
}

// soleHandle is the one handle that all segments of h name, if there is exactly
// one: the tag that a Send with Invalidate of the reply may name, for it cannot
// be the wrong one.
func (h *Header) soleHandle() (handle uint32, ok bool) {
	found := false
	see := func(s Segment) bool {
		if found && s.Handle != handle {
			return false
		}
		handle, found = s.Handle, true
		return true
	}
	for i := range h.Reads.Len() {
		if !see(h.Reads.At(i).Segment) {
			return 0, false
		}
	}
	chunk := func(c WriteChunk) bool {
		for i := range c.Len() {
			if !see(c.At(i)) {
				return false
			}
		}
		return true
	}
	for l := h.Writes; l.Len() > 0; {
		if !chunk(l.next()) {
			return 0, false
		}
	}
	if !chunk(h.Reply.WriteChunk) {
		return 0, false
	}
	return handle, found
}

// checkWraps refuses segments that reach beyond the last offset.
func (h *Header) checkWraps() error {
	for i := range h.Reads.Len() {
		if h.Reads.At(i).wraps() {
			return errWraps
		}
	}
	for l := h.Writes; l.Len() > 0; {
		c := l.next()
		for i := range c.Len() {
			if c.At(i).wraps() {
				return errWraps
			}
		}
	}
	for i := range h.Reply.Len() {
		if h.Reply.At(i).wraps() {
			return errWraps
		}
	}
	return nil
}
