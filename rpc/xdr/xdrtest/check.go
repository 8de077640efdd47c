package xdrtest

import (
	"bytes"
	"reflect"

	"pgregory.net/rapid"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// room is the capacity of the Writers, in bytes. It is larger than the encoding of any value that
// Draw makes.
const room = 1 << 16

// Check draws a random value of a type, and encodes it. The function fresh returns a new zero value
// of that type. Check fails the test unless
//
//   - the encoding decodes to the same value, both whole and with its eligible items excised. The
//     excised items may have padding or not. The Decoder may find them by their positions (Reset)
//     or by their order (ResetPlaces);
//   - a random proper prefix of the encoding does not decode.
//
// It returns the encoding and the result of Leaves for the value.
func Check(t *rapid.T, fresh func() Value) (stream []byte, want []any) {
	v := fresh()
	Draw(t, v)
	want = Leaves(v)

	w := xdr.NewWriter(make([]byte, 0, room))
	v.Encode(w)
	if w.Overflow() {
		t.Fatalf("%+v cannot be encoded", v)
	}
	stream = Stream(w)
	if len(stream) != w.StreamLen() {
		t.Fatalf("the stream is %d bytes, StreamLen says %d", len(stream), w.StreamLen())
	}

	checkDecode(t, "whole", fresh(), stream, nil, want)
	for _, pad := range []bool{false, true} {
		words, excised := Reduce(w, pad)
		checkDecode(t, "reduced", fresh(), words, excised, want)
		for i := range excised {
			excised[i].Position = 0
		}
		checkPlaces(t, fresh(), words, excised, want)
	}
	if len(stream) > 0 {
		d := xdr.NewDecoder(stream[:rapid.IntRange(0, len(stream)-1).Draw(t, "cut")])
		fresh().Decode(d)
		if d.Finish() == nil {
			t.Fatalf("%x without its end is accepted", stream)
		}
	}
	return stream, want
}

// CheckForeign does the same as Check. It also checks that another implementation (the parameter
// theirs) reads the same value from the encoding, and encodes that value as the same bytes.
func CheckForeign(t *rapid.T, fresh func() Value, theirs Foreign) {
	stream, want := Check(t, fresh)
	r := bytes.NewReader(stream)
	foreign, err := theirs.Read(r)
	if err != nil {
		t.Fatalf("%x is refused: %v", stream, err)
	}
	if r.Len() > 0 {
		t.Fatalf("%d bytes of %x are not understood", r.Len(), stream)
	}
	if got := ForeignLeaves(foreign); !reflect.DeepEqual(got, want) {
		t.Fatalf("%x\nmeans %v\n but says %v", stream, want, got)
	}
	var back bytes.Buffer
	if err := theirs.Write(&back, foreign); err != nil {
		t.Fatalf("cannot be written back: %v", err)
	}
	if !bytes.Equal(back.Bytes(), stream) {
		t.Fatalf("wrote %x\nagainst %x", stream, back.Bytes())
	}
}

func checkDecode(t *rapid.T, how string, v Value, stream []byte, excised []xdr.Excised, want []any) {
	var d xdr.Decoder
	d.Reset(stream, 0, excised)
	checkDecoder(t, how, v, &d, stream, excised, want)
}

func checkPlaces(t *rapid.T, v Value, stream []byte, places []xdr.Excised, want []any) {
	var d xdr.Decoder
	d.ResetPlaces(stream, 0, places)
	checkDecoder(t, "placed", v, &d, stream, places, want)
}

func checkDecoder(t *rapid.T, how string, v Value, d *xdr.Decoder, stream []byte, excised []xdr.Excised, want []any) {
	v.Decode(d)
	if err := d.Finish(); err != nil {
		t.Fatalf("%s: %x with %v: %v", how, stream, excised, err)
	}
	if got := Leaves(v); !reflect.DeepEqual(got, want) {
		t.Fatalf("%s: %x\nmeans %v\ndecoded %v", how, stream, want, got)
	}
}
