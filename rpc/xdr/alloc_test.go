package xdr

import "testing"

// Writer and Decoder allocate nothing, also with two payloads and two excised items.
func TestNoAllocation(t *testing.T) {
	buf := make([]byte, 0, 256)
	w := NewWriter(buf)
	first, next := []byte("first"), []byte("next")
	var ref counted
	if n := testing.AllocsPerRun(100, func() {
		w.Reset(buf)
		w.Uint32(1)
		w.Payload(first, true, &ref)
		w.Uint32(2)
		w.Payload(next, true, &ref)
		w.Uint32(3)
		w.Release()
	}); n != 0 {
		t.Errorf("writing allocates %v times", n)
	}
	stream := octets(t, words)
	excised := []Excised{{8, first}, {24, next}}
	var d Decoder
	if n := testing.AllocsPerRun(100, func() {
		d.Reset(stream, 0, excised)
		reduced(&d)
		if d.Finish() != nil {
			t.Fatal(d.Finish())
		}
	}); n != 0 {
		t.Errorf("reading allocates %v times", n)
	}
}

func BenchmarkDecodeReduced(b *testing.B) {
	stream := octets(b, words)
	excised := []Excised{{8, []byte("first")}, {24, []byte("next")}}
	var d Decoder
	for b.Loop() {
		d.Reset(stream, 0, excised)
		reduced(&d)
	}
}
