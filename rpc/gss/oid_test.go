package gss

import (
	"bytes"
	"testing"
)

func TestMechanismOfToken(t *testing.T) {
	krb5 := []byte{0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02}
	frame := func(head []byte, rest ...byte) []byte { return append(append(head, krb5...), rest...) }
	long := func(n int, octets ...byte) []byte {
		return append(frame(append(append([]byte{0x60}, octets...), 0x06, 9)), make([]byte, n-11)...)
	}
	for _, c := range []struct {
		name  string
		token []byte
		ok    bool
	}{
		{"nothing behind", frame([]byte{0x60, 11, 0x06, 9}), true},
		{"something behind", frame([]byte{0x60, 13, 0x06, 9}, 1, 0), true},
		{"128 octets", long(128, 0x81, 128), true},
		{"300 octets", long(300, 0x82, 1, 44), true},
		{"70,000 octets", long(70_000, 0x83, 1, 0x11, 0x70), true},
		{"a length with a leading zero", long(128, 0x82, 0, 128), false},
		{"a length in the longer form", long(100, 0x81, 100), false},
		{"a length of too many octets", long(300, 0x84, 0, 0, 1, 44), false},
		{"a length without end", long(300, 0x80), false},
		{"a length that says more", frame([]byte{0x60, 12, 0x06, 9}), false},
		{"a length that says less", frame([]byte{0x60, 10, 0x06, 9}), false},
		{"another tag", frame([]byte{0x61, 11, 0x06, 9}), false},
		{"no object identifier", frame([]byte{0x60, 11, 0x04, 9}), false},
		{"an object identifier that ends early", frame([]byte{0x60, 11, 0x06, 10}), false},
		{"an empty object identifier", []byte{0x60, 2, 0x06, 0}, false},
		{"no length", []byte{0x60}, false},
		{"a length that ends early", []byte{0x60, 0x82, 1}, false},
		{"nothing", nil, false},
	} {
		oid, ok := mechanismOf(c.token)
		if ok != c.ok || ok && !bytes.Equal(oid, krb5) {
			t.Errorf("%s: %x, %v", c.name, oid, ok)
		}
	}
}

// FuzzMechanismOf checks that the identifier found is in the token, after its tag and its length.
func FuzzMechanismOf(f *testing.F) {
	f.Add([]byte{0x60, 5, 0x06, 2, 42, 3, 0})
	f.Add([]byte{0x60, 0x81, 0x80})
	f.Fuzz(func(t *testing.T, token []byte) {
		oid, ok := mechanismOf(token)
		if ok && (len(oid) == 0 || !bytes.Contains(token, append([]byte{0x06}, derPut(len(oid), oid)...))) {
			t.Errorf("%x: %x", token, oid)
		}
	})
}

// derPut returns b with the DER encoding of the length n in front.
func derPut(n int, b []byte) []byte {
	switch {
	case n < 0x80:
		return append([]byte{byte(n)}, b...)
	case n < 0x100:
		return append([]byte{0x81, byte(n)}, b...)
	case n < 0x10000:
		return append([]byte{0x82, byte(n >> 8), byte(n)}, b...)
	}
	return append([]byte{0x83, byte(n >> 16), byte(n >> 8), byte(n)}, b...)
}
