package wire

import (
	"bytes"
	"strings"
	"testing"
)

// IW-60: ParseTermination also reads the dialect of siw on little-endian machines, where nibbles
// are swapped and bits are numbered from the other end.
func TestTerminationDialects(t *testing.T) {
	for s, want := range map[string]struct {
		cause   Cause
		dialect Dialect
		ddp     int
		rdmap   int
	}{
		"2107c000 0012" + "4143 00000000 00000000 00000001 00000000": {Cause{LayerMPA, 1, 7}, DialectRFC, 18, 0},
		"12070300 0012" + "4143 00000000 00000000 00000001 00000000": {Cause{LayerMPA, 1, 7}, DialectSIW, 18, 0},
		"1100c000 0010" + "c140 00000001 0000000000000000":           {DDPInvalidSTag, DialectRFC, 14, 0},
		"20020000": {MPACRC, DialectUnknown, 0, 0},
		// siw sets R without the header.
		"01000700 0012" + "4143 00000000 00000000 00000001 00000000": {Cause{1, 0, 0}, DialectSIW, 18, 0},
		// The header is announced, but cut off: the cause is still valid.
		"1100c000 0010" + "c140 0000": {DDPInvalidSTag, DialectRFC, 0, 0},
		"1100c000 00":                 {DDPInvalidSTag, DialectRFC, 0, 0},
		// IW-21: reserved bits do not matter.
		"2107df5a 0012" + "4143 00000000 00000000 00000001 00000000": {Cause{LayerMPA, 1, 7}, DialectRFC, 18, 0},
	} {
		got, err := ParseTermination(unhex(t, s))
		if err != nil || got.Cause != want.cause || got.Dialect != want.dialect || len(got.DDP) != want.ddp || len(got.RDMAP) != want.rdmap {
			t.Errorf("%s: %+v, %v", s, got, err)
		}
	}
	if _, err := ParseTermination(unhex(t, "200200")); err == nil {
		t.Error("3 bytes are no Terminate header")
	}
}

// IW-18, IW-19, IW-228: a Terminate encodes each cause by the numbers in the standards' tables
// (RFC 5040 §4.8, RFC 5041 §7.2, RFC 5044 §8, RFC 6581 §9).
func TestNumbersOfCauses(t *testing.T) {
	for want, c := range map[string]Cause{
		"0000": RDMAPCatastrophic,
		"0100": RDMAPInvalidSTag, "0101": RDMAPBounds, "0102": RDMAPAccess, "0103": RDMAPNotAssociated,
		"0104": RDMAPWrap, "0109": RDMAPNotInvalid, "01ff": RDMAPProtection,
		"0205": RDMAPVersionFault, "0206": RDMAPOpcode, "0207": RDMAPStream, "0208": RDMAPGlobal,
		"0209": RDMAPNotInvalidOp, "02ff": RDMAPOperation,
		"1000": DDPCatastrophic,
		"1100": DDPInvalidSTag, "1101": DDPBounds, "1102": DDPNotAssociated, "1103": DDPWrap, "1104": DDPTaggedVersion,
		"1201": DDPQueue, "1202": DDPNoBuffer, "1203": DDPMSN, "1204": DDPOffset, "1205": DDPTooLong, "1206": DDPUntaggedVersion,
		"2001": MPALost, "2002": MPACRC, "2003": MPAMarker, "2004": MPAStartup, "2005": MPACatastrophic,
		"2006": MPAReadDepth, "2007": MPANoRTR,
	} {
		term := Termination{Cause: c}
		b := make([]byte, term.Size())
		term.Put(b)
		if !bytes.Equal(b, unhex(t, want+"0000")) {
			t.Errorf("%v goes out as %x, want %s0000", c, b, want)
		}
	}
}

// IW-19: a cause has a name if and only if the standards list it.
func TestListedCauses(t *testing.T) {
	listed := map[Cause]bool{}
	for typ, codes := range map[uint8][]uint8{1: {0, 1, 2, 3, 4, 9, 0xff}, 2: {5, 6, 7, 8, 9, 0xff}} {
		for _, c := range codes {
			listed[Cause{LayerRDMAP, typ, c}] = true
		}
	}
	for typ, codes := range map[uint8][]uint8{0: {0}, 1: {0, 1, 2, 3, 4}, 2: {1, 2, 3, 4, 5, 6}} {
		for _, c := range codes {
			listed[Cause{LayerDDP, typ, c}] = true
		}
	}
	for c := uint8(1); c <= 7; c++ {
		listed[Cause{LayerMPA, 0, c}] = true
	}
	for layer := range Layer(16) {
		for typ := range uint8(16) {
			for code := range 256 {
				c := Cause{layer, typ, uint8(code)}
				want := listed[c] || layer == LayerRDMAP && typ == 0
				if listed := !strings.HasSuffix(c.String(), ", unlisted"); listed != want {
					t.Errorf("%v: listed %v", c, listed)
				}
			}
		}
	}
}

func TestTerminationRoundTrip(t *testing.T) {
	ddp := unhex(t, "4141 00000000 00000001 00000001 00000000")
	rdmap := bytes.Repeat([]byte{7}, ReadRequestSize)
	for _, want := range []Termination{
		{Cause: RDMAPStream, Dialect: DialectUnknown},
		{Cause: DDPBounds, DDP: unhex(t, "c140 00000001 0000000000000000"), SegmentLength: 99},
		{Cause: DDPMSN, DDP: ddp, SegmentLength: 46},
		{Cause: RDMAPWrap, DDP: ddp, RDMAP: rdmap, SegmentLength: 46},
	} {
		b := make([]byte, want.Size())
		want.Put(b)
		got, err := ParseTermination(b)
		if err != nil || got.Cause != want.Cause || got.Dialect != want.Dialect || got.SegmentLength != want.SegmentLength ||
			!bytes.Equal(got.DDP, want.DDP) || !bytes.Equal(got.RDMAP, want.RDMAP) {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
	}
}

func TestCodecsDoNotAllocate(t *testing.T) {
	b := make([]byte, 256)
	var sink Termination
	ddp := make([]byte, UntaggedSize)
	if n := testing.AllocsPerRun(100, func() {
		Tagged{Op: Write, Last: true, STag: 1}.Put(b)
		_ = ParseTagged(b)
		Untagged{Op: Send, Last: true}.Put(b)
		_ = ParseUntagged(b)
		readRequest.Put(b)
		_ = ParseRead(b)
		t := Termination{Cause: DDPMSN, DDP: ddp}
		t.Put(b)
		sink, _ = ParseTermination(b)
		PutFPDU(b, b[2:100], true)
		MPAHeader{Revision: 2}.Put(b)
		_, _ = ParseMPAHeader(b)
		Enhanced{IRD: 1}.Put(b)
		_ = ParseEnhanced(b)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	_ = sink
}
