package wire

import (
	"bytes"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire/wiretest"
)

// errors2 are the bodies of RDMA2_ERROR, with their words on the wire.
var errors2 = []struct {
	body ErrorBody2
	hex  string
}{
	{ErrorBody2{Code: Err2Vers, Low: 1, High: 2}, "00000001 00000001 00000002"},
	{ErrorBody2{Code: Err2BadXDR}, "00000002"},
	{ErrorBody2{Code: Err2BadPropval}, "00000003"},
	{ErrorBody2{Code: Err2InvalHtype}, "00000004"},
	{ErrorBody2{Code: Err2InvalCont}, "00000005"},
	{ErrorBody2{Code: Err2ReadChunks, Max: 6}, "00000006 00000006"},
	{ErrorBody2{Code: Err2WriteChunks, Max: 7}, "00000007 00000007"},
	{ErrorBody2{Code: Err2Segments, Max: 8}, "00000008 00000008"},
	{ErrorBody2{Code: Err2WriteResource, Index: 2, Needed: 8191}, "00000009 00000002 00001fff"},
	{ErrorBody2{Code: Err2ReplyResource, Needed: 8192}, "0000000a 00002000"},
	{ErrorBody2{Code: Err2VersMismatch}, "0000000b"},
	{ErrorBody2{Code: Err2System}, "00000064"},
}

// An RDMA2_ERROR has the XID and the version of the refused message, whatever they are, its own type, and
// the words that belong to its code. Rows V2-67, V2-68, V2-69, V2-97, V2-98, V2-101 of docs/conformance.md.
func TestRDMA2Errors(t *testing.T) {
	refused := Prefix2{XID: 0xfee1dead, Version: 9, Limit: 77, Type: TypeCallInline}
	for _, c := range errors2 {
		want := wiretest.Hex("fee1dead 00000009 0000004d 00000004" + c.hex)
		b := bytes.Repeat([]byte{0xee}, MaxError2Size)
		if n := c.body.Put(b, refused); !bytes.Equal(b[:n], want) {
			t.Errorf("%v: % x, want % x", c.body.Code, b[:n], want)
		}
		if e, ok := ParseErrorBody2(append(bytes.Clone(want), 1, 2, 3)); !ok || e != c.body {
			t.Errorf("%v: decoded as %+v %v", c.body.Code, e, ok)
		}
		if !strings.HasPrefix(c.body.Code.String(), "RDMA2_ERR_") {
			t.Errorf("code %d is called %v", uint32(c.body.Code), c.body.Code)
		}
	}
}

// An RDMA2_ERROR with an unknown code, or with too few words, is dropped. Row V2-70 of docs/conformance.md.
func TestRDMA2ErrorsThatAreDropped(t *testing.T) {
	for _, code := range []ErrorCode2{0, 12, 57, 99, 101, 0xffffffff} {
		b := patched(make([]byte, MaxError2Size), 4, uint32(code))
		if e, ok := ParseErrorBody2(b); ok || e != (ErrorBody2{}) || code.String() != "rdma_err(?)" {
			t.Errorf("code %d: %+v %v", uint32(code), e, ok)
		}
	}
	for _, c := range errors2 {
		b := make([]byte, MaxError2Size)
		for n := range c.body.Put(b, Prefix2{}) {
			if e, ok := ParseErrorBody2(b[:n]); ok || e != (ErrorBody2{}) {
				t.Errorf("%v cut to %d bytes: %+v %v", c.body.Code, n, e, ok)
			}
		}
	}
}
