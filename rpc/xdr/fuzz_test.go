package xdr

import (
	"bytes"
	"testing"
)

// FuzzDecoder reads stream by the operations in script, one for each byte, with one excised item.
// It checks for any input that nothing panics, that no item is longer than its limit, that no count
// is larger than the stream allows, that nothing is read after an error, and that Position and Len
// are consistent.
func FuzzDecoder(f *testing.F) {
	f.Add(octets(f, words), []byte{0, 6, 0, 6, 0}, uint32(8), []byte("first"))
	f.Add(octets(f, wordsAndY), []byte{0, 6, 0, 6, 0}, uint32(8), []byte("first\x00\x00\x00"))
	f.Add(octets(f, wordsAndX), []byte{0, 5, 0, 5, 0}, uint32(24), []byte{})
	f.Add(octets(f, "00000002 00000001 00000002"), []byte{7, 0, 0}, uint32(0), []byte{})
	f.Add(octets(f, "ffffffff 00000001"), []byte{5}, uint32(4), []byte{1})
	f.Fuzz(func(t *testing.T, stream, script []byte, position uint32, data []byte) {
		var excised []Excised
		if len(data) > 0 {
			excised = []Excised{{position, data}}
		}
		const limit, start = 64, 40
		var d Decoder
		d.Reset(stream, start, excised)
		for _, op := range script {
			failed, before, left := d.Err(), d.Position(), d.Len()
			var item []byte
			value := uint64(0)
			switch op % 9 {
			case 0:
				value = uint64(d.Uint32())
			case 1:
				value = uint64(d.Int32())
			case 2:
				value = d.Uint64()
			case 3:
				if d.Bool() {
					value = 1
				}
			case 4:
				item = d.FixedOpaque(int(op) / 9)
			case 5:
				item = d.Opaque(limit)
			case 6:
				item = d.EligibleOpaque(limit)
			case 7:
				n := d.Count(limit, 4)
				if n > limit || n*4 > left {
					t.Fatalf("%d elements in %d bytes", n, left)
				}
				value = uint64(n)
			case 8:
				d.Skip(int(op) / 9)
			}
			if len(item) > limit || cap(item) != len(item) {
				t.Fatalf("an item of %d bytes, capacity %d", len(item), cap(item))
			}
			if d.Err() != nil && item != nil {
				t.Fatalf("%x with %v", item, d.Err())
			}
			if failed != nil && (d.Err() != failed || value != 0 || d.Position() != before) {
				t.Fatalf("read on after %v", failed)
			}
			if d.Position() < before || d.Len() > left {
				t.Fatal("the cursor goes backward")
			}
		}
		if d.Finish() == nil {
			taken := 0
			if len(data) > 0 {
				taken = len(data) + Pad(len(data))
			}
			if d.Position() != start+len(stream)+taken {
				t.Fatalf("position %d after %d+%d bytes from %d", d.Position(), len(stream), taken, start)
			}
		}
	})
}

// FuzzWriter writes items of random lengths, some as payloads. It checks that a Decoder reads the
// same items, with the payloads in the stream or excised.
func FuzzWriter(f *testing.F) {
	f.Add([]byte{0, 3, 5, 4, 7, 255})
	f.Add([]byte{1, 1, 1})
	f.Fuzz(func(t *testing.T, lengths []byte) {
		lengths = lengths[:min(len(lengths), 64)]
		w := NewWriter(make([]byte, 0, 1<<15))
		content := bytes.Repeat([]byte{0xa5}, 255)
		for i, n := range lengths {
			if i%2 == 0 {
				w.Payload(content[:n], true, nil)
			} else {
				w.Opaque(content[:n])
			}
		}
		var excised []Excised
		before := 0
		for _, p := range w.Payloads() {
			excised = append(excised, Excised{uint32(p.Position + before), p.Data})
			before += len(p.Data) + Pad(len(p.Data))
		}
		if w.Overflow() || w.StreamLen() != w.Len()+before {
			t.Fatalf("%d words and %d payload bytes, StreamLen %d", w.Len(), before, w.StreamLen())
		}
		var d Decoder
		d.Reset(w.Bytes(), 0, excised)
		for i, n := range lengths {
			read := d.Opaque
			if i%2 == 0 {
				read = d.EligibleOpaque
			}
			if got := read(255); !bytes.Equal(got, content[:n]) {
				t.Fatalf("item %d of %d bytes is %x, %v", i, n, got, d.Err())
			}
		}
		if d.Finish() != nil {
			t.Fatal(d.Finish())
		}
	})
}
