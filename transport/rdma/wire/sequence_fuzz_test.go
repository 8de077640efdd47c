package wire

import "testing"

// sequences are scripts for FuzzSequence. Each message has three bytes: its type, its XID, and its part's length times
// 16 plus what remains.
var sequences = map[string][]byte{
	"a call in three parts":           {9, 1, 0x4c, 9, 1, 0x84, 10, 1, 0x40},
	"a reply in two, then a whole":    {12, 1, 0x4f, 13, 1, 0xf0, 13, 2, 0x40},
	"a byte too long":                 {9, 1, 0x6f, 10, 1, 0xf0},
	"the longest":                     {9, 1, 0x5f, 10, 1, 0xf0},
	"a call of the reply's XID":       {12, 1, 0x48, 10, 1, 0x40, 13, 1, 0x80},
	"parts of two calls":              {9, 1, 0x48, 9, 2, 0x48, 9, 1, 0x44, 10, 1, 0x40, 10, 2, 0x80},
	"the end is short":                {9, 1, 0x48, 10, 1, 0x70, 10, 1, 0x40},
	"parts behind properties":         {6, 1, 0, 9, 1, 0x44, 7, 1, 0, 10, 1, 0x40, 12, 3, 0x44, 13, 3, 0x40},
	"a grant and an error in between": {9, 1, 0x44, 5, 0, 0, 4, 1, 0, 10, 1, 0x40},
}

// mostFuzzed is Sequence.Most of FuzzSequence: a script can exceed it.
const mostFuzzed = 20

// follow gives the messages of a script to a Sequence. It returns the lengths of the RPC messages that were put together
// from several parts. However messages come, none has other parts than its own, or another length than was announced;
// and one that is refused is not continued.
func follow(t *testing.T, script []byte) (whole []int) {
	s := Sequence{Most: mostFuzzed}
	type message struct {
		reply bool
		xid   uint32
	}
	var open *message // the RPC message whose parts came last
	came, total := 0, 0
	for ; len(script) >= 3; script = script[3:] {
		p := Prefix2{XID: uint32(script[1] & 3), Type: HeaderType(script[0]&15) % 14}
		size, remaining := int(script[2]>>4), int(script[2]&15)
		if !p.Type.Known() {
			continue
		}
		step := s.Admit(p)
		if step.Interrupted {
			if open == nil || *open != (message{step.Reply, step.XID}) || step.Inform != (step.XID != p.XID) {
				t.Fatalf("%+v ended, %+v was open", step, open)
			}
			open = nil
		}
		if step.Drop != (step.Refused() && step.Answer.Code == 0) {
			t.Fatalf("%+v", step)
		}
		if step.Refused() {
			continue
		}
		if !p.Type.IsMiddle() && p.Type != TypeCallInline && p.Type != TypeReplyInline {
			if open != nil {
				t.Fatalf("%v goes on between parts", p.Type)
			}
			continue
		}
		if !p.Type.IsMiddle() {
			remaining = 0
		}
		this := message{p.Type.IsReply(), p.XID}
		switch refused := s.Add(p, size, uint32(remaining)).Refused(); {
		case refused:
			open = nil
			continue
		case open == nil && !p.Type.IsMiddle():
			continue
		case open == nil:
			open, came, total = &this, size, size+remaining
		case *open != this:
			t.Fatalf("%v of XID %d continues %+v", p.Type, p.XID, open)
		default:
			came += size
		}
		if came+remaining != total || total > mostFuzzed || size < MinFragment {
			t.Fatalf("%d bytes came, %d remain, %d were announced", came, remaining, total)
		}
		if !p.Type.IsMiddle() {
			whole, open = append(whole, came), nil
		}
	}
	return whole
}

// Rows V2-3, V2-81 of docs/conformance.md.
func FuzzSequence(f *testing.F) {
	for _, script := range sequences {
		f.Add(script)
	}
	f.Fuzz(func(t *testing.T, script []byte) { follow(t, script) })
}

// The scripts that FuzzSequence begins with put RPC messages together, up to the longest one.
func TestSequenceScripts(t *testing.T) {
	want := map[string]int{"a call in three parts": 16, "a reply in two, then a whole": 19, "the longest": mostFuzzed, "a grant and an error in between": 8,
		"parts behind properties": 8}
	for name, script := range sequences {
		whole := follow(t, script)
		switch n, ok := want[name]; {
		case ok && (len(whole) != 1 || whole[0] != n), !ok && len(whole) > 0:
			t.Errorf("%s: RPC messages of %v bytes", name, whole)
		}
	}
}
