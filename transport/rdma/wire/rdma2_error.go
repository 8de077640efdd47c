package wire

import "encoding/binary"

// ErrorCode2 is rdma_err of version 2 (§7, §8.4).
type ErrorCode2 uint32

// Codes of RDMA2_ERROR.
const (
	// Err2Vers: the version is not supported; the supported range follows (§7.1.1).
	Err2Vers ErrorCode2 = 1
	// Err2BadXDR: the Transport stream cannot be parsed (§7.2.1).
	Err2BadXDR ErrorCode2 = 2
	// Err2BadPropval: the value of a transport property cannot be parsed (§7.2.2).
	Err2BadPropval ErrorCode2 = 3
	// Err2InvalHtype: the header type is not supported (§7.1.3).
	Err2InvalHtype ErrorCode2 = 4
	// Err2InvalCont: the message does not fit into the order of messages (§7.1.4).
	Err2InvalCont ErrorCode2 = 5
	// Err2ReadChunks: too many Read chunks; the greatest number of them follows (§7.3.1).
	Err2ReadChunks ErrorCode2 = 6
	// Err2WriteChunks: too many Write chunks; the greatest number of them follows (§7.3.2).
	Err2WriteChunks ErrorCode2 = 7
	// Err2Segments: too many segments; the greatest number of them follows (§7.3.3).
	Err2Segments ErrorCode2 = 8
	// Err2WriteResource: a Write chunk is too short; its index and the length needed follow (§7.3.4).
	Err2WriteResource ErrorCode2 = 9
	// Err2ReplyResource: the Reply chunk is too short or absent; the length needed follows (§7.3.5).
	Err2ReplyResource ErrorCode2 = 10
	// Err2VersMismatch: the version is not that of the connection (§7.1.2).
	Err2VersMismatch ErrorCode2 = 11
	// Err2System: another failure of the Responder (§7.4.1).
	Err2System ErrorCode2 = 100
)

var errorCode2Names = map[ErrorCode2]string{
	Err2Vers:          "RDMA2_ERR_VERS",
	Err2BadXDR:        "RDMA2_ERR_BAD_XDR",
	Err2BadPropval:    "RDMA2_ERR_BAD_PROPVAL",
	Err2InvalHtype:    "RDMA2_ERR_INVAL_HTYPE",
	Err2InvalCont:     "RDMA2_ERR_INVAL_CONT",
	Err2ReadChunks:    "RDMA2_ERR_READ_CHUNKS",
	Err2WriteChunks:   "RDMA2_ERR_WRITE_CHUNKS",
	Err2Segments:      "RDMA2_ERR_SEGMENTS",
	Err2WriteResource: "RDMA2_ERR_WRITE_RESOURCE",
	Err2ReplyResource: "RDMA2_ERR_REPLY_RESOURCE",
	Err2VersMismatch:  "RDMA2_ERR_VERS_MISMATCH",
	Err2System:        "RDMA2_ERR_SYSTEM",
}

// String names the code as the draft does.
func (c ErrorCode2) String() string {
	if name, ok := errorCode2Names[c]; ok {
		return name
	}
	return "rdma_err(?)"
}

// MaxError2Size is the length of the longest RDMA2_ERROR, in bytes.
const MaxError2Size = PrefixSize + 12

// An ErrorBody2 is the part of an RDMA2_ERROR after the prefix (§6.3.1, §7). ERR_VERS has the layout that it
// has in version 1.
type ErrorBody2 struct {
	Code ErrorCode2
	// Low and High are the first and the last supported version, for Err2Vers.
	Low, High uint32
	// Max is the greatest number of chunks, for Err2ReadChunks and Err2WriteChunks, or of segments, for
	// Err2Segments, that the sender of the error accepts.
	Max uint32
	// Index is, for Err2WriteResource, the number of the first Write chunk that is too short. The first
	// chunk of the list has the number 1; 0 means that the number is not known.
	Index uint32
	// Needed is the length, in bytes, that the chunk must have, for Err2WriteResource and
	// Err2ReplyResource. 0 means that the length is not known.
	Needed uint32
}

// arms returns the words after the code on the wire. There are n of them. ok is false if the code is unknown.
func (e *ErrorBody2) arms() (words [2]*uint32, n int, ok bool) {
	switch e.Code {
	case Err2Vers:
		return [2]*uint32{&e.Low, &e.High}, 2, true
	case Err2ReadChunks, Err2WriteChunks, Err2Segments:
		return [2]*uint32{&e.Max}, 1, true
	case Err2WriteResource:
		return [2]*uint32{&e.Index, &e.Needed}, 2, true
	case Err2ReplyResource:
		return [2]*uint32{&e.Needed}, 1, true
	case Err2BadXDR, Err2BadPropval, Err2InvalHtype, Err2InvalCont, Err2VersMismatch, Err2System:
		return [2]*uint32{}, 0, true
	}
	return [2]*uint32{}, 0, false
}

// ParseErrorBody2 reads the body of an RDMA2_ERROR; message includes the prefix, which the function does not
// read, because a peer copies the version of a faulty message to its error. ok is false if the message is
// truncated or has an unknown code; its receiver then drops it without an answer (§7). Bytes behind the body
// are ignored.
func ParseErrorBody2(message []byte) (e ErrorBody2, ok bool) {
	at := PrefixSize
	if len(message) < at+4 {
		return ErrorBody2{}, false
	}
	e.Code = ErrorCode2(binary.BigEndian.Uint32(message[at:]))
	words, n, ok := e.arms()
	at += 4
	if !ok || len(message) < at+4*n {
		return ErrorBody2{}, false
	}
	for _, w := range words[:n] {
		*w = binary.BigEndian.Uint32(message[at:])
		at += 4
	}
	return e, true
}

// Put writes a whole RDMA2_ERROR to b, which must have room for MaxError2Size bytes, and returns its length.
// p.XID and p.Version are those of the refused message, whatever they are; p.Type is ignored (§7). Put panics if the
// code is unknown: with Code 0, nothing may be sent (Refusal.Answer).
func (e ErrorBody2) Put(b []byte, p Prefix2) int {
	words, n, ok := e.arms()
	if !ok {
		panic("rdma: an RDMA2_ERROR without a code")
	}
	p.Type = TypeError
	p.Put(b)
	at := PrefixSize
	binary.BigEndian.PutUint32(b[at:], uint32(e.Code))
	at += 4
	for _, w := range words[:n] {
		binary.BigEndian.PutUint32(b[at:], *w)
		at += 4
	}
	return at
}
