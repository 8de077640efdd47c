package wire

import (
	"bytes"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire/wiretest"
)

func TestPrivateDataVectors(t *testing.T) {
	for name, v := range map[string]struct {
		hex  string
		want PrivateData
	}{
		"P1": {"f6ab0e18 01000000", PrivateData{false, 1024, 1024}},
		"P2": {"f6ab0e18 01010303", PrivateData{true, 4096, 4096}},
		"P3": {"f6ab0e18 0101ffff", PrivateData{true, 262144, 262144}},
	} {
		b := make([]byte, PrivateDataSize)
		v.want.Put(b)
		if !bytes.Equal(b, wiretest.Hex(v.hex)) {
			t.Errorf("%s: encoded as %x", name, b)
		}
		if p, ok := ParsePrivateData(b); !ok || p != v.want {
			t.Errorf("%s: decoded as %+v", name, p)
		}
	}
}

// Reserved bits are sent as zero. Sizes are rounded down, so that no peer sends more than a receive
// holds, and stay in the range of one byte (RFC 8797 §4). Row V1-112 of docs/conformance.md.
func TestPrivateDataSizesAreRoundedDown(t *testing.T) {
	for size, want := range map[int]byte{0: 0, 1023: 0, 1024: 0, 2047: 0, 2048: 1, 5000: 3, 262144: 255, 1 << 20: 255} {
		b := []byte{0, 0, 0, 0, 0, 0xff, 0, 0}
		PrivateData{SendSize: size, ReceiveSize: size}.Put(b)
		if b[5] != 0 || b[6] != want || b[7] != want {
			t.Errorf("%d bytes: % x, want %d", size, b[5:], want)
		}
	}
}

// The codec looks for a peer's private data at every offset and checks it; invalid data counts as
// missing. Rows V1-113, V1-116, V1-117, V1-118, V1-119 and A-11 of docs/conformance.md.
func TestPrivateDataFromPeers(t *testing.T) {
	none := PrivateData{false, 1024, 1024}
	for name, v := range map[string]struct {
		hex   string
		want  PrivateData
		found bool
	}{
		"absent":                               {"", none, false},
		"foreign (V1-117)":                     {"0102030405060708090a0b0c", none, false},
		"first byte of the mark (V1-117)":      {"f7ab0e18 01010303", none, false},
		"second byte of the mark (V1-117)":     {"f6aa0e18 01010303", none, false},
		"third byte of the mark (V1-117)":      {"f6ab0f18 01010303", none, false},
		"fourth byte of the mark (V1-117)":     {"f6ab0e19 01010303", none, false},
		"Reserved bits without R (V1-113)":     {"f6ab0e18 01fe0307", PrivateData{false, 4096, 8192}, true},
		"Reserved bits with R (V1-113)":        {"f6ab0e18 01ff0307", PrivateData{true, 4096, 8192}, true},
		"version 9 (V1-116)":                   {"f6ab0e18 09010303", none, false},
		"version 0 (V1-116)":                   {"f6ab0e18 00010303", none, false},
		"cut short (V1-119)":                   {"f6ab0e18 010103", none, false},
		"magic in the last bytes (V1-119)":     {"00000000 00f6ab0e18 0101", none, false},
		"one byte before it (V1-118)":          {"00 f6ab0e18 01010303", PrivateData{true, 4096, 4096}, true},
		"two bytes before it (V1-118)":         {"0000 f6ab0e18 01010303 ff", PrivateData{true, 4096, 4096}, true},
		"three bytes before it (V1-118)":       {"000000 f6ab0e18 01010303 ffff", PrivateData{true, 4096, 4096}, true},
		"iWARP's four bytes before it":         {"40004000 f6ab0e18 01010303", PrivateData{true, 4096, 4096}, true},
		"five bytes before it, more behind":    {"0102030405 f6ab0e18 01010303 0102", PrivateData{true, 4096, 4096}, true},
		"the first whose version holds (A-11)": {"f6ab0e18 09010303 f6ab0e18 01000001", PrivateData{false, 1024, 2048}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if p, ok := ParsePrivateData(wiretest.Hex(v.hex)); p != v.want || ok != v.found {
				t.Errorf("%+v %v, want %+v %v", p, ok, v.want, v.found)
			}
		})
	}
}
