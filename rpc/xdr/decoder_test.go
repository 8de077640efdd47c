package xdr

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

// octets returns the bytes of a text in hexadecimal digits. It ignores spaces.
func octets(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The Decoder reads each scalar in the form of RFC 4506 §4.
func TestScalars(t *testing.T) {
	d := NewDecoder(octets(t, "80000001 fffffffe 0102030405060708 ffffffffffffffff 00000001 00000000"))
	if v := d.Uint32(); v != 0x80000001 {
		t.Errorf("Uint32 %#x", v)
	}
	if v := d.Int32(); v != -2 {
		t.Errorf("Int32 %d", v)
	}
	if v := d.Uint64(); v != 0x0102030405060708 {
		t.Errorf("Uint64 %#x", v)
	}
	if v := d.Int64(); v != -1 {
		t.Errorf("Int64 %d", v)
	}
	if !d.Bool() || d.Bool() {
		t.Error("Bool")
	}
	if err := d.Finish(); err != nil {
		t.Error(err)
	}
}

// An opaque item is followed by padding to a multiple of four. The result aliases the stream, and
// has no capacity beyond the item's end.
func TestOpaqueItems(t *testing.T) {
	for _, c := range []struct {
		name, stream string
		read         func(*Decoder) []byte
		want         string
		err          error
	}{
		{"counted", "00000003 61626300", func(d *Decoder) []byte { return d.Opaque(3) }, "abc", nil},
		{"empty", "00000000", func(d *Decoder) []byte { return d.Opaque(0) }, "", nil},
		{"longest", "00000004 61626364", func(d *Decoder) []byte { return d.Opaque(4) }, "abcd", nil},
		{"beyond the limit", "00000005 6162636465000000", func(d *Decoder) []byte { return d.Opaque(4) }, "", ErrTooLong},
		{"beyond the stream", "00000005 61626364", func(d *Decoder) []byte { return d.Opaque(NoLimit) }, "", ErrShort},
		{"largest count", "ffffffff 61626364", func(d *Decoder) []byte { return d.Opaque(NoLimit) }, "", ErrShort},
		{"no padding", "00000003 616263", func(d *Decoder) []byte { return d.Opaque(NoLimit) }, "", ErrShort},
		{"no count", "0000", func(d *Decoder) []byte { return d.Opaque(NoLimit) }, "", ErrShort},
		{"fixed", "61626364 65000000", func(d *Decoder) []byte { return d.FixedOpaque(5) }, "abcde", nil},
		{"fixed, short", "61626364", func(d *Decoder) []byte { return d.FixedOpaque(5) }, "", ErrShort},
		{"fixed, impossible", "61626364", func(d *Decoder) []byte { return d.FixedOpaque(-1) }, "", ErrTooLong},
		{"eligible, inline", "00000003 61626300", func(d *Decoder) []byte { return d.EligibleOpaque(3) }, "abc", nil},
		{"eligible, beyond the limit", "00000003 61626300", func(d *Decoder) []byte { return d.EligibleOpaque(2) }, "", ErrTooLong},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := NewDecoder(octets(t, c.stream))
			got := c.read(d)
			if string(got) != c.want || cap(got) != len(got) {
				t.Errorf("%q, capacity %d", got, cap(got))
			}
			if !errors.Is(d.Finish(), c.err) {
				t.Errorf("error %v, want %v", d.Finish(), c.err)
			}
		})
	}
}

// After an error, FixedOpaqueTo fills its argument with zeros.
func TestFixedOpaqueTo(t *testing.T) {
	p := [5]byte{9, 9, 9, 9, 9}
	NewDecoder(octets(t, "6162636465000000")).FixedOpaqueTo(p[:])
	if string(p[:]) != "abcde" {
		t.Errorf("%q", p)
	}
	d := NewDecoder(octets(t, "61626364"))
	d.FixedOpaqueTo(p[:])
	if p != [5]byte{} || d.Err() != ErrShort {
		t.Errorf("%q, %v", p, d.Err())
	}
}

// A boolean other than 0 and 1 is an error (RFC 4506 §4.4).
func TestBadBool(t *testing.T) {
	d := NewDecoder(octets(t, "00000002 00000001"))
	if d.Bool() || d.Err() != ErrBadValue {
		t.Error(d.Err())
	}
	if d.Bool() {
		t.Error("reads on after an error")
	}
}

// After an error, all reads return zero values, and Err returns the first error.
func TestErrorsStick(t *testing.T) {
	d := NewDecoder(octets(t, "00000009 00000001 00000001 00000001"))
	if d.Opaque(8); d.Err() != ErrTooLong {
		t.Fatal(d.Err())
	}
	at := d.Position()
	if d.Uint32() != 0 || d.Int32() != 0 || d.Uint64() != 0 || d.Int64() != 0 || d.Bool() ||
		d.Opaque(9) != nil || d.EligibleOpaque(9) != nil || d.FixedOpaque(4) != nil || d.Count(9, 1) != 0 {
		t.Error("something is read after an error")
	}
	d.Skip(4)
	d.Fail(ErrTrailing)
	if d.Finish() != ErrTooLong || d.Position() != at {
		t.Errorf("%v at %d", d.Finish(), d.Position())
	}
}

// Finish, but not Err, reports bytes that are left over.
func TestFinish(t *testing.T) {
	d := NewDecoder(octets(t, "00000001 00000002"))
	d.Uint32()
	if d.Err() != nil || d.Finish() != ErrTrailing || d.Len() != 4 || len(d.Rest()) != 4 {
		t.Errorf("%v, %v, %d left", d.Err(), d.Finish(), d.Len())
	}
	d.Skip(4)
	if d.Finish() != nil {
		t.Error(d.Finish())
	}
	var empty Decoder
	if empty.Finish() != nil || empty.Bool() || empty.Err() != ErrShort {
		t.Error("the zero Decoder is not an empty stream")
	}
}

// Count returns a count only if it is within the limit, and the stream is long enough for the
// elements.
func TestCount(t *testing.T) {
	for _, c := range []struct {
		name, stream string
		limit        uint32
		size, want   int
		err          error
	}{
		{"fits", "00000002 00000001 00000002", 2, 4, 2, nil},
		{"none", "00000000", 0, 4, 0, nil},
		{"beyond the limit", "00000003 00000001 00000002 00000003", 2, 4, 0, ErrTooLong},
		{"beyond the stream", "00000003 00000001 00000002", 3, 4, 0, ErrShort},
		{"large elements", "00000002 0000000000000000", 9, 8, 0, ErrShort},
		{"largest count", "ffffffff 00000001", NoLimit, 4, 0, ErrShort},
		{"product beyond 32 bits", "40000001 00000001", NoLimit, 4, 0, ErrShort},
		{"no count", "000000", NoLimit, 4, 0, ErrShort},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := NewDecoder(octets(t, c.stream))
			if n := d.Count(c.limit, c.size); n != c.want || d.Err() != c.err {
				t.Errorf("%d, %v", n, d.Err())
			}
		})
	}
}

// Pad returns the number of bytes to the next multiple of four (RFC 4506 §3).
func TestPad(t *testing.T) {
	for n, want := range []int{0, 3, 2, 1, 0, 3} {
		if Pad(n) != want {
			t.Errorf("Pad(%d) = %d", n, Pad(n))
		}
	}
}
