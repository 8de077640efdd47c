package xdr

import (
	"bytes"
	"testing"
)

// counted is a Releaser that counts the calls of Release.
type counted struct{ released int }

func (c *counted) Release() { c.released++ }

// The Writer writes each scalar in the form of RFC 4506 §4.
func TestWriteScalars(t *testing.T) {
	w := NewWriter(make([]byte, 0, 64))
	w.Uint32(0x80000001)
	w.Int32(-2)
	w.Uint64(0x0102030405060708)
	w.Int64(-1)
	w.Bool(true)
	w.Bool(false)
	w.Opaque([]byte("abc"))
	w.String("abcd")
	w.FixedOpaque([]byte("abcde"))
	w.PatchUint32(0, 7)
	want := octets(t, "00000007 fffffffe 0102030405060708 ffffffffffffffff 00000001 00000000"+
		"00000003 61626300 00000004 61626364 6162636465000000")
	if !bytes.Equal(w.Bytes(), want) || w.Overflow() {
		t.Errorf("%x", w.Bytes())
	}
	if w.Len() != len(want) || w.Available() != 64-len(want) || w.StreamLen() != len(want) {
		t.Errorf("%d written, %d left", w.Len(), w.Available())
	}
}

// Padding bytes are zero, whatever was in the buffer before.
func TestWritePadding(t *testing.T) {
	buf := bytes.Repeat([]byte{0xff}, 16)
	w := NewWriter(buf[:0])
	w.Opaque([]byte{1})
	w.String("\x02")
	if want := octets(t, "00000001 01000000 00000001 02000000"); !bytes.Equal(w.Bytes(), want) {
		t.Errorf("%x", w.Bytes())
	}
}

// If an item does not fit, the Writer writes neither this item nor any later one, even if the later
// one would fit, because a reply without an item in the middle is invalid.
func TestOverflowSticks(t *testing.T) {
	w := NewWriter(make([]byte, 0, 12))
	w.Uint32(1)
	w.Opaque(make([]byte, 8))
	w.Uint32(2)
	if !w.Overflow() {
		t.Fatal("no overflow")
	}
	if w.Len() > 8 || cap(w.Bytes()) != 12 {
		t.Errorf("%d bytes, capacity %d", w.Len(), cap(w.Bytes()))
	}
	w.Truncate(4)
	if w.Uint32(3); w.Overflow() || !bytes.Equal(w.Bytes(), octets(t, "00000001 00000003")) {
		t.Errorf("after Truncate: %x", w.Bytes())
	}
}

// A value beyond the bound of its definition is not written.
func TestWriteBounds(t *testing.T) {
	for name, write := range map[string]func(*Writer){
		"opaque":   func(w *Writer) { w.BoundedOpaque(make([]byte, 5), 4) },
		"array":    func(w *Writer) { w.Count(5, 4) },
		"eligible": func(w *Writer) { (&Eligible{Data: make([]byte, 5)}).Encode(w, 4) },
		"fail":     func(w *Writer) { w.Fail() },
	} {
		w := NewWriter(make([]byte, 0, 64))
		write(w)
		if !w.Overflow() || w.Len() != 0 || len(w.Payloads()) != 0 {
			t.Errorf("%s: wrote %x", name, w.Bytes())
		}
	}
	w := NewWriter(make([]byte, 0, 64))
	w.BoundedOpaque([]byte("abcd"), 4)
	w.Count(4, 4)
	if want := octets(t, "00000004 61626364 00000004"); !bytes.Equal(w.Bytes(), want) || w.Overflow() {
		t.Errorf("at the bound: %x", w.Bytes())
	}
}

// The count of a payload is written to the buffer, but not its content and padding. Position is the
// number of bytes in the buffer before the content (RFC 8166 §3.4.4, V1-29 and V1-34 in
// docs/conformance-rpcrdma-v1.md).
func TestPayload(t *testing.T) {
	var ref counted
	w := NewWriter(make([]byte, 0, 64))
	w.Uint32(1)
	w.Payload([]byte("first"), true, &ref)
	w.Uint32(2)
	w.Payload([]byte("next"), false, nil)
	w.Uint32(3)
	if want := octets(t, words); !bytes.Equal(w.Bytes(), want) {
		t.Errorf("words %x", w.Bytes())
	}
	if w.StreamLen() != 32 {
		t.Errorf("stream of %d bytes", w.StreamLen())
	}
	p := w.Payloads()
	if len(p) != 2 || p[0].Position != 8 || !p[0].Eligible || string(p[0].Data) != "first" ||
		p[1].Position != 16 || p[1].Eligible || string(p[1].Data) != "next" {
		t.Errorf("%+v", p)
	}
	w.Release()
	w.Release()
	if ref.released != 1 || w.StreamLen() != w.Len() || len(w.Payloads()) != 0 {
		t.Errorf("released %d times, stream of %d bytes", ref.released, w.StreamLen())
	}
}

// Eligible.Encode adds a payload that is marked as eligible and refers to the item's memory. A
// Decoder reads the item from the stream or from a chunk.
func TestEligible(t *testing.T) {
	var ref counted
	w := NewWriter(make([]byte, 0, 64))
	(&Eligible{Data: []byte("first"), Ref: &ref}).Encode(w, 5)
	p := w.Payloads()
	if len(p) != 1 || !p[0].Eligible || p[0].Ref != &ref || string(p[0].Data) != "first" || ref.released != 0 {
		t.Errorf("%+v, released %d times", p, ref.released)
	}
	v := Eligible{Ref: &ref}
	var d Decoder
	d.Reset(w.Bytes(), 0, []Excised{{4, p[0].Data}})
	if v.Decode(&d, 5); string(v.Data) != "first" || v.Ref != nil || d.Finish() != nil {
		t.Errorf("%+v, %v", v, d.Finish())
	}
}

// The Writer releases each reference exactly once: by Release, by Truncate, or at once if the item
// does not fit. If TakePayloads was called, its caller releases it.
func TestPayloadReferences(t *testing.T) {
	t.Run("overflow", func(t *testing.T) {
		var ref counted
		w := NewWriter(nil)
		w.Payload([]byte("data"), true, &ref)
		if ref.released != 1 || len(w.Payloads()) != 0 || w.StreamLen() != 0 {
			t.Errorf("released %d times", ref.released)
		}
		w.Release()
		if ref.released != 1 {
			t.Error("released twice")
		}
	})
	t.Run("beyond the bound", func(t *testing.T) {
		var ref counted
		w := NewWriter(make([]byte, 0, 64))
		(&Eligible{Data: make([]byte, 5), Ref: &ref}).Encode(w, 4)
		if ref.released != 1 {
			t.Errorf("released %d times", ref.released)
		}
	})
	t.Run("truncate", func(t *testing.T) {
		var kept, dropped counted
		w := NewWriter(make([]byte, 0, 64))
		w.Payload([]byte("kept"), true, &kept)
		mark := w.Len()
		w.Payload([]byte("dropped"), true, &dropped)
		w.Truncate(mark)
		if kept.released != 0 || dropped.released != 1 || len(w.Payloads()) != 1 || w.StreamLen() != 8 {
			t.Errorf("kept %d, dropped %d, stream of %d bytes", kept.released, dropped.released, w.StreamLen())
		}
		w.Release()
		if kept.released != 1 || dropped.released != 1 {
			t.Errorf("kept %d, dropped %d", kept.released, dropped.released)
		}
	})
	t.Run("take", func(t *testing.T) {
		var ref counted
		w := NewWriter(make([]byte, 0, 64))
		w.Payload([]byte("data"), true, &ref)
		taken := w.TakePayloads()
		w.Release()
		if ref.released != 0 || len(taken) != 1 || taken[0].Ref != &ref {
			t.Errorf("released %d times, took %+v", ref.released, taken)
		}
	})
}

// stream returns the whole stream of w, with the payloads inserted.
func stream(w *Writer) []byte {
	var b []byte
	at := 0
	for _, p := range w.Payloads() {
		b = append(b, w.Bytes()[at:p.Position]...)
		b = append(b, p.Data...)
		b = append(b, make([]byte, Pad(len(p.Data)))...)
		at = p.Position
	}
	return append(b, w.Bytes()[at:]...)
}

func TestFoldPaddingKeepsTheStream(t *testing.T) {
	for _, lengths := range [][]int{{}, {0}, {1}, {4}, {5, 8, 7}, {3, 3, 0}, {0, 2}, {9, 4}, {8, 8}, {1, 2, 3, 4, 5}} {
		w := NewWriter(make([]byte, 0, 256))
		w.Uint32(7)
		odd := 0
		for i, n := range lengths {
			data := make([]byte, n)
			for j := range data {
				data[j] = byte(16*i + j + 1)
			}
			w.Payload(data, true, nil)
			w.Uint32(uint32(100 + i))
			odd += min(n&3, 1)
		}
		before, length := stream(w), w.StreamLen()
		w.FoldPadding()
		if !bytes.Equal(stream(w), before) || w.StreamLen() != length || w.Overflow() {
			t.Errorf("%v: %x became %x", lengths, before, stream(w))
		}
		for _, p := range w.Payloads() {
			if len(p.Data)&3 != 0 {
				t.Errorf("%v: a payload of %d bytes is left", lengths, len(p.Data))
			}
		}
		if want := 4 * (1 + 2*len(lengths) + odd); w.Len() != want {
			t.Errorf("%v: %d bytes of words, want %d", lengths, w.Len(), want)
		}
	}
}

func TestFoldPaddingWithoutRoom(t *testing.T) {
	w := NewWriter(make([]byte, 0, 8))
	w.Payload([]byte{1, 2, 3, 4, 5}, true, nil)
	w.Uint32(9)
	before := stream(w)
	w.FoldPadding()
	if !w.Overflow() || !bytes.Equal(stream(w), before) {
		t.Errorf("overflow %v, %x", w.Overflow(), stream(w))
	}
}
