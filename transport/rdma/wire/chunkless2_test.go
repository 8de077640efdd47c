package wire

import (
	"encoding/binary"
	"reflect"
	"testing"
)

// The fast paths for headers without chunks take exactly the headers that Parse takes and that have none, and their results
// are those of Parse.
func TestChunklessHeaders(t *testing.T) {
	taken := [2]int{}
	for n := range 3 * 3 * 3 * 3 * 3 {
		b := make([]byte, PrefixSize, 64)
		Prefix2{XID: 7, Version: Version2, Type: TypeCallInline}.Put(b)
		for i, left := 0, n; i < 5; i, left = i+1, left/3 {
			b = binary.BigEndian.AppendUint32(b, uint32(left%3))
		}
		for b = append(b, 7, 7, 7, 7); len(b) >= PrefixSize; b = b[:len(b)-1] {
			var call Call2
			whole := !call.Parse(b).Refused() && call.Size == MinCallInline
			offer, size, ok := ParseChunkless2(b)
			if ok != whole {
				t.Errorf("%x: a call without chunks: %v", b, ok)
			}
			if ok && (size != call.Size || !reflect.DeepEqual(offer, call.Offer)) {
				t.Errorf("%x: %d bytes, %+v, want %+v", b, size, offer, call.Offer)
			}
			if ok {
				taken[0]++
			}
			reply := append([]byte(nil), b...)
			Prefix2{XID: 7, Version: Version2, Type: TypeReplyInline}.Put(reply)
			var r Reply2
			whole = !r.Parse(reply).Refused() && r.Size == MinReplyInline
			if ok := IsChunkless2(reply); ok != whole {
				t.Errorf("%x: a reply without chunks: %v", reply, ok)
			} else if ok {
				taken[1]++
			}
		}
	}
	if taken[0] == 0 || taken[1] == 0 {
		t.Errorf("%d headers without chunks", taken)
	}
}
