package tcp

import "encoding/binary"

// markSize is the length of a fragment's header (RFC 5531 §11), in bytes.
const markSize = 4

// lastFragment is the bit of a fragment's header that is set in the last fragment of a record.
const lastFragment = 1 << 31

// maxFragment is the longest fragment that a header can announce, in bytes.
const maxFragment = lastFragment - 1

// putMark makes b's first word the header of a record of one fragment.
func putMark(b []byte, length int) {
	binary.BigEndian.PutUint32(b, lastFragment|uint32(length))
}

func mark(b []byte) (length int, last bool) {
	h := binary.BigEndian.Uint32(b)
	return int(h &^ lastFragment), h&lastFragment != 0
}
