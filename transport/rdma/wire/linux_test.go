package wire

import (
	"bytes"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire/wiretest"
)

// Messages of a Linux client and the Linux server decode, and encode to the same bytes; the codec
// distinguishes calls from replies.
func TestLinuxMessages(t *testing.T) {
	messages := wiretest.Linux()
	if len(messages) < 30 {
		t.Fatalf("%d messages", len(messages))
	}
	chunks := 0
	for name, b := range messages {
		var h Header
		if err := h.Parse(b); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := unparsed(&h); !bytes.Equal(got, b[:h.Size]) {
			t.Errorf("%s: encoded as\n%x, want\n%x", name, got, b[:h.Size])
		}
		chunks += h.Reads.Len() + h.Writes.Len() + h.Reply.Len()
		if len(b)-h.Size < 8 {
			if h.Proc != ProcNoMsg {
				t.Errorf("%s: %v without a Payload", name, h.Proc)
			}
			continue
		}
		if isReply := b[h.Size+7] == 1; isReply != strings.Contains(name, "reply") {
			t.Errorf("%s: reply %v", name, isReply)
		}
	}
	if chunks < 20 {
		t.Errorf("%d chunks in all", chunks)
	}
	// The private data of both sides, with siw's four bytes before it.
	for s, want := range map[string]PrivateData{
		"00800000 f6ab0e18 01010303": {true, 4096, 4096},
		"00000080 f6ab0e18 01000303": {false, 4096, 4096},
	} {
		if p, ok := ParsePrivateData(wiretest.Hex(s)); !ok || p != want {
			t.Errorf("%s: %+v", s, p)
		}
	}
}
