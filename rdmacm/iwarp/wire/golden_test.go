package wire

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var readRequest = Read{SinkSTag: 0x0a0b0c01, SinkOffset: 0x1000, Size: 0x10000, SourceSTag: 0x1122aa03, SourceOffset: 0x1234567800002000}

// golden are FPDUs with CRC, and the calls that encode them.
var golden = []struct {
	name string
	hex  string
	put  func(b []byte) int // the ULPDU
}{
	// IW-2, IW-3, IW-6, IW-7, IW-25: an RDMA Write is tagged, opcode 0.
	{"empty Write", "000e c140 00000001 0000000000000000 ebd34c5f", func(b []byte) int {
		Tagged{Op: Write, Last: true, STag: 1}.Put(b)
		return TaggedSize
	}},
	// IW-12, IW-15, IW-30, IW-33: a Read Request is untagged on queue 1, its
	// RDMAP header has the sink first.
	{"Read Request", `002e 4141 00000000 00000001 00000001 00000000
		0a0b0c01 0000000000001000 00010000 1122aa03 1234567800002000 7e12ffbb`, func(b []byte) int {
		Untagged{Op: ReadRequest, Last: true, Queue: QueueRead, MSN: 1}.Put(b)
		readRequest.Put(b[UntaggedSize:])
		return UntaggedSize + ReadRequestSize
	}},
	// IW-41: a Read Response is tagged. IW-302: its pad is zero.
	{"Read Response", "0013 c142 0a0b0c01 0000000000001000 68656c6c6f 000000 bdcc11de", func(b []byte) int {
		Tagged{Op: ReadResponse, Last: true, STag: 0x0a0b0c01, Offset: 0x1000}.Put(b)
		return TaggedSize + copy(b[TaggedSize:], "hello")
	}},
	{"empty Read Response", "000e c142 00000000 0000000000000000 6975d6ca", func(b []byte) int {
		Tagged{Op: ReadResponse, Last: true}.Put(b)
		return TaggedSize
	}},
	// IW-46, IW-49: a Send is untagged on queue 0.
	{"Send", "0015 4143 00000000 00000000 00000001 00000000 616263 00 447065aa", func(b []byte) int {
		Untagged{Op: Send, Last: true, MSN: 1}.Put(b)
		return UntaggedSize + copy(b[UntaggedSize:], "abc")
	}},
	// IW-4, IW-52: the STag to invalidate is in the bytes reserved for the ULP.
	{"empty Send with Invalidate", "0012 4144 1122aa03 00000000 00000002 00000000 fecbe798", func(b []byte) int {
		Untagged{Op: SendInvalidate, Last: true, Invalidate: 0x1122aa03, MSN: 2}.Put(b)
		return UntaggedSize
	}},
	// IW-17, IW-18, IW-21, IW-56, IW-57: a Terminate is untagged on queue 2.
	{"Terminate", "0016 4147 00000000 00000002 00000001 00000000 20020000 7fe42585", func(b []byte) int {
		Untagged{Op: Terminate, Last: true, Queue: QueueTerminate, MSN: 1}.Put(b)
		t := Termination{Cause: MPACRC}
		t.Put(b[UntaggedSize:])
		return UntaggedSize + t.Size()
	}},
	// IW-22, IW-23, IW-24: a Terminate quotes the segment length, and the DDP and RDMAP headers.
	{"Terminate of the Read Request", `0046 4147 00000000 00000002 00000001 00000000 0101e000
		002e 4141 00000000 00000001 00000001 00000000
		0a0b0c01 0000000000001000 00010000 1122aa03 1234567800002000 01395a9b`, func(b []byte) int {
		Untagged{Op: Terminate, Last: true, Queue: QueueTerminate, MSN: 1}.Put(b)
		var ddp [UntaggedSize]byte
		var rdmap [ReadRequestSize]byte
		Untagged{Op: ReadRequest, Last: true, Queue: QueueRead, MSN: 1}.Put(ddp[:])
		readRequest.Put(rdmap[:])
		t := Termination{Cause: RDMAPBounds, DDP: ddp[:], RDMAP: rdmap[:], SegmentLength: UntaggedSize + ReadRequestSize}
		t.Put(b[UntaggedSize:])
		return UntaggedSize + t.Size()
	}},
}

// IW-300: an FPDU has one ULPDU, with the length before it and the CRC after it.
func TestGoldenFPDUs(t *testing.T) {
	for _, g := range golden {
		t.Run(g.name, func(t *testing.T) {
			want := unhex(t, g.hex)
			ulpdu := make([]byte, 128)
			ulpdu = ulpdu[:g.put(ulpdu)]
			got := make([]byte, FPDUSize(len(ulpdu)))
			if n := PutFPDU(got, ulpdu, true); n != len(got) || !bytes.Equal(got, want) {
				t.Fatalf("got  %x\nwant %x", got, want)
			}
		})
	}
}

// IW-3, IW-5, IW-6, IW-7, IW-8, IW-9, IW-10, IW-46, IW-203: each message type has its opcode,
// tagged bit, versions and reserved bits.
func TestControlOfEachOpcode(t *testing.T) {
	for op, want := range map[Opcode][2]byte{
		Write: {0xc1, 0x40}, ReadRequest: {0x41, 0x41}, ReadResponse: {0xc1, 0x42},
		Send: {0x41, 0x43}, SendInvalidate: {0x41, 0x44}, SendSolicited: {0x41, 0x45},
		SendSolInvalidate: {0x41, 0x46}, Terminate: {0x41, 0x47},
	} {
		b := make([]byte, UntaggedSize)
		if op.Tagged() {
			Tagged{Op: op, Last: true}.Put(b)
		} else {
			Untagged{Op: op, Last: true}.Put(b)
		}
		if [2]byte(b) != want {
			t.Errorf("%v: control bytes %x, want %x", op, b[:2], want)
		}
		if c := ParseControl(b); c != (Control{Tagged: op.Tagged(), Last: true, DDP: 1, RDMAP: 1, Op: op}) {
			t.Errorf("%v: %+v", op, c)
		}
		// IW-201: more segments follow.
		if op.Tagged() {
			Tagged{Op: op}.Put(b)
		} else {
			Untagged{Op: op}.Put(b)
		}
		if b[0] != want[0]&^0x40 {
			t.Errorf("%v: control byte %x of a segment that is not the last", op, b[0])
		}
	}
}

// IW-11, IW-203: ParseControl ignores reserved bits.
func TestControlIgnoresReservedBits(t *testing.T) {
	if c := ParseControl([]byte{0x41 | 0x3c, 0x43 | 0x30}); c != (Control{Last: true, DDP: 1, RDMAP: 1, Op: Send}) {
		t.Fatalf("%+v", c)
	}
}

// IW-8: encoded headers parse to the same values.
func TestHeadersRoundTrip(t *testing.T) {
	b := make([]byte, 64)
	g := Tagged{Op: ReadResponse, Last: true, STag: 0xdeadbeef, Offset: 0xfedcba9876543210}
	g.Put(b)
	if got := ParseTagged(b); got != g {
		t.Errorf("%+v, want %+v", got, g)
	}
	u := Untagged{Op: SendSolInvalidate, Invalidate: 0x01020304, Queue: 0xa0b0c0d0, MSN: 0xffffffff, Offset: 0x80000001}
	u.Put(b)
	if got := ParseUntagged(b); got != u {
		t.Errorf("%+v, want %+v", got, u)
	}
	readRequest.Put(b)
	if got := ParseRead(b); got != readRequest {
		t.Errorf("%+v, want %+v", got, readRequest)
	}
}

// CRC gives RFC 3720's check value, and the values of RFC 5044 Figure 5 with and without its
// marker.
func TestCRC(t *testing.T) {
	if got := CRC(0, []byte("123456789")); got != 0xe3069283 {
		t.Errorf("check value %#x", got)
	}
	fig5 := append(unhex(t, "00000000 002a4143 00000000 00000000 00000001 00000000"), make([]byte, 24)...)
	var field [CRCSize]byte
	PutCRC(field[:], CRC(0, fig5))
	if !bytes.Equal(field[:], unhex(t, "52239983")) || ParseCRC(field[:]) != 0x83992352 {
		t.Errorf("Figure 5: %x", field)
	}
	PutCRC(field[:], CRC(0, fig5[4:]))
	if !bytes.Equal(field[:], unhex(t, "b7243ec3")) {
		t.Errorf("Figure 5 without its marker: %x", field)
	}
}

// IW-302: length, ULPDU and pad together are a multiple of 4.
func TestPad(t *testing.T) {
	for n := range 70 {
		if p := Pad(n); p < 0 || p > 3 || (LengthSize+n+p)%4 != 0 {
			t.Errorf("Pad(%d) = %d", n, p)
		}
	}
	if FPDUSize(14) != 20 || FPDUSize(0x13) != 28 {
		t.Error("FPDUSize")
	}
}

// The start-up frames of a Linux NFS client and of a server's reply are parsed and encoded
// correctly.
func TestGoldenStartup(t *testing.T) {
	request := unhex(t, "4d504120494420526571204672616d65 1002 000c 0080 0000 f6ab0e18 01 01 03 03")
	h, err := ParseMPAHeader(request)
	if err != nil || h != (MPAHeader{Flags: MPAEnhanced, Revision: Revision2, Length: 12}) {
		t.Fatalf("%+v, %v", h, err)
	}
	if e := ParseEnhanced(request[MPAHeaderSize:]); e != (Enhanced{IRD: 128}) {
		t.Fatalf("%+v", e)
	}
	reply := unhex(t, "4d504120494420526570204672616d65 5002 000c 0000 0080")
	got := make([]byte, len(reply))
	MPAHeader{Reply: true, Flags: MPAEnhanced | MPAChecksum, Revision: Revision2, Length: 12}.Put(got)
	Enhanced{ORD: 128}.Put(got[MPAHeaderSize:])
	if !bytes.Equal(got, reply) {
		t.Fatalf("got  %x\nwant %x", got, reply)
	}
}

// Each flag of a start-up frame has its bit, from the highest one on: markers, CRC, rejected (RFC
// 5044 §7.1.1), enhanced (RFC 6581 §6).
func TestStartupFlags(t *testing.T) {
	for want, f := range map[byte]MPAFlags{0x80: MPAMarkers, 0x40: MPAChecksum, 0x20: MPARejected, 0x10: MPAEnhanced} {
		b := make([]byte, MPAHeaderSize)
		MPAHeader{Flags: f, Revision: Revision2}.Put(b)
		if h, err := ParseMPAHeader(b); err != nil || b[16] != want || h.Flags != f {
			t.Errorf("flag %#02x goes out as %#02x and comes back as %+v, %v", want, b[16], h, err)
		}
	}
}

// IW-310, IW-311, IW-312: key and length are checked, reserved bits are not.
func TestStartupHeader(t *testing.T) {
	good := unhex(t, "4d504120494420526571204672616d65 0001 0200")
	for i := range mpaKeySize {
		bad := bytes.Clone(good)
		bad[i] ^= 0x20
		if _, err := ParseMPAHeader(bad); err != ErrKey {
			t.Errorf("key wrong at %d: %v", i, err)
		}
	}
	if h, err := ParseMPAHeader(good); err != nil || h.Length != 512 {
		t.Errorf("512 bytes: %+v, %v", h, err)
	}
	good[19] = 1
	if _, err := ParseMPAHeader(good); err != ErrPrivateData {
		t.Errorf("513 bytes: %v", err)
	}
	good[18], good[19], good[16] = 0, 0, 0x0f
	if h, err := ParseMPAHeader(good); err != nil || h.Flags != 0 {
		t.Errorf("reserved bits: %+v, %v", h, err)
	}
}

// IW-412: without flag A, Enhanced has no forms of the ready-to-receive message, and Put writes
// none. Each of the flags has its own bit.
func TestEnhanced(t *testing.T) {
	for s, want := range map[string]Enhanced{
		"0080 0000": {IRD: 128},
		"c001 0002": {PeerToPeer: true, RTR: RTRSend, IRD: 1, ORD: 2},
		"8001 8002": {PeerToPeer: true, RTR: RTRWrite, IRD: 1, ORD: 2},
		"8001 4002": {PeerToPeer: true, RTR: RTRRead, IRD: 1, ORD: 2},
		"ffff ffff": {PeerToPeer: true, RTR: RTRSend | RTRWrite | RTRRead, IRD: DepthUnset, ORD: DepthUnset},
	} {
		b := unhex(t, s)
		if got := ParseEnhanced(b); got != want {
			t.Errorf("%s: %+v, want %+v", s, got, want)
		}
		got := make([]byte, EnhancedSize)
		want.Put(got)
		if !bytes.Equal(got, b) {
			t.Errorf("%+v: %x, want %s", want, got, s)
		}
	}
	if got := ParseEnhanced(unhex(t, "4001 c002")); got != (Enhanced{IRD: 1, ORD: 2}) {
		t.Errorf("forms without flag A: %+v", got)
	}
	got := make([]byte, EnhancedSize)
	Enhanced{RTR: RTRSend | RTRWrite | RTRRead, IRD: 1, ORD: 2}.Put(got)
	if !bytes.Equal(got, unhex(t, "0001 0002")) {
		t.Errorf("forms without flag A: %x", got)
	}
}
