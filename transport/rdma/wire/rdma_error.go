package wire

import "encoding/binary"

// ErrorCode is rdma_err of RFC 8166 §4.1.2.
type ErrorCode uint32

// Codes of RDMA_ERROR.
const (
	// ErrVers: the version is not supported; the supported range follows.
	ErrVers ErrorCode = 1
	// ErrChunk: the receiver of the message cannot decode its header, or cannot process its chunks.
	ErrChunk ErrorCode = 2
)

// String names the code as RFC 8166 does.
func (c ErrorCode) String() string {
	switch c {
	case ErrVers:
		return "ERR_VERS"
	case ErrChunk:
		return "ERR_CHUNK"
	}
	return "rdma_err(?)"
}

// MaxErrorSize is the length of the longest RDMA_ERROR, ERR_VERS, in bytes.
const MaxErrorSize = PrefixSize + 12

// errChunkSize is the length of an RDMA_ERROR with ERR_CHUNK, in bytes. It is less than MinHeader.
const errChunkSize = PrefixSize + 4

// An ErrorBody is the part of an RDMA_ERROR after the prefix (RFC 8166 §4.5).
type ErrorBody struct {
	Code ErrorCode
	// Low and High are the supported versions, for ErrVers.
	Low, High uint32
}

// ParseErrorBody reads the body of an RDMA_ERROR; message includes the prefix. ok is false
// if the message cannot be decoded or has an unknown code; the caller then drops it (RFC
// 8166 §4.5). It ignores extra words at the end (RFC 5666 §4.3).
func ParseErrorBody(message []byte) (e ErrorBody, ok bool) {
	if len(message) < errChunkSize {
		return ErrorBody{}, false
	}
	switch e.Code = ErrorCode(binary.BigEndian.Uint32(message[PrefixSize:])); e.Code {
	case ErrChunk:
		return e, true
	case ErrVers:
		if len(message) < MaxErrorSize {
			return ErrorBody{}, false
		}
		e.Low = binary.BigEndian.Uint32(message[PrefixSize+4:])
		e.High = binary.BigEndian.Uint32(message[PrefixSize+8:])
		return e, true
	}
	return ErrorBody{}, false
}

// Put writes a whole RDMA_ERROR to b, which must have room for it, and returns its length.
// It sets the procedure itself; p.Proc is ignored.
func (e ErrorBody) Put(b []byte, p Prefix) int {
	p.Proc = ProcError
	p.Put(b)
	binary.BigEndian.PutUint32(b[PrefixSize:], uint32(e.Code))
	if e.Code != ErrVers {
		return errChunkSize
	}
	binary.BigEndian.PutUint32(b[PrefixSize+4:], e.Low)
	binary.BigEndian.PutUint32(b[PrefixSize+8:], e.High)
	return MaxErrorSize
}
