package wire

import (
	"bytes"
	"testing"
)

// Each encoder writes every byte that it claims to write, because buffers are used again. So old
// content of a buffer, such as the code of an RDMA_ERROR where a reply has its empty Read list,
// does not get into a message. Row V1-47 of docs/conformance.md.
func TestEncodersOverwriteTheBuffer(t *testing.T) {
	prefix := Prefix{XID: 7, Version: Version1, Credits: 32}
	replyTo := func(m message, used []uint64, replied uint64) func(b []byte) int {
		var h Header
		if err := h.Parse(m.bytes()); err != nil {
			t.Fatal(err)
		}
		o := h.Offer
		return func(b []byte) int {
			o.PutReply(b, prefix, used, replied)
			return o.ReplySize()
		}
	}
	two := [][]Segment{{{1, 10, 0}, {2, 20, 0}}, {{3, 30, 0}}}
	for name, put := range map[string]func(b []byte) int{
		"Prefix": func(b []byte) int { prefix.Put(b); return PrefixSize },
		"Lists, empty": func(b []byte) int {
			l := Lists{}
			l.Put(b)
			return l.Size()
		},
		"Lists": func(b []byte) int {
			l := Lists{Reads: at(0, Segment{1, 2, 3}), Writes: [][]Segment{{}, {{4, 5, 6}}}, Reply: []Segment{}}
			l.Put(b)
			return l.Size()
		},
		"PrivateData":                 func(b []byte) int { PrivateData{SendSize: 1024, ReceiveSize: 4096}.Put(b); return PrivateDataSize },
		"ERR_CHUNK":                   func(b []byte) int { return ErrorBody{Code: ErrChunk}.Put(b, prefix) },
		"ERR_VERS":                    func(b []byte) int { return ErrorBody{Code: ErrVers, Low: 1, High: 1}.Put(b, prefix) },
		"Reply":                       replyTo(message{xid: 7}, nil, 0),
		"Reply, chunks used":          replyTo(message{xid: 7, writes: two, reply: two[0]}, []uint64{15, 30}, 20),
		"Reply, chunks unused":        replyTo(message{xid: 7, writes: two, reply: two[0]}, nil, 0),
		"Reply, chunks without bytes": replyTo(message{xid: 7, writes: [][]Segment{{}}, reply: []Segment{}}, nil, 0),
	} {
		fresh, used := make([]byte, 256), bytes.Repeat([]byte{0xee}, 256)
		n := put(fresh)
		if m := put(used); m != n || !bytes.Equal(used[:n], fresh[:n]) {
			t.Errorf("%s: in a buffer that was used before\n% x\nin a new one\n% x", name, used[:m], fresh[:n])
		}
		if !bytes.Equal(used[n:], bytes.Repeat([]byte{0xee}, 256-n)) {
			t.Errorf("%s: wrote beyond its %d bytes", name, n)
		}
	}
}
