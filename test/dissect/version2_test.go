package dissect

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/rawpeer"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire/wiretest"
)

// A capture is a file of tcpdump with one iWARP connection, made without a network.
type capture struct {
	file     []byte
	sequence [2]uint32 // of the client's and the server's next byte
	msn      [2]uint32
}

const fromClient, fromServer = 0, 1

func newCapture() *capture {
	c := &capture{}
	for _, word := range []uint32{0xa1b2c3d4, 2<<16 | 4, 0, 0, 1 << 16, 1} { // the last word: Ethernet
		c.file = binary.BigEndian.AppendUint32(c.file, word)
	}
	for side := range 2 {
		h := wire.MPAHeader{Reply: side == fromServer, Flags: wire.MPAChecksum, Revision: wire.Revision1}
		b := make([]byte, wire.MPAHeaderSize)
		h.Put(b)
		c.segment(side, b)
	}
	return c
}

// segment adds a TCP segment that side sends.
func (c *capture) segment(side int, payload []byte) {
	be := binary.BigEndian
	ports := [2]uint16{40000, 20049}
	var b []byte
	b = append(b, 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0) // Ethernet
	b = append(b, 0x45, 0)
	b = be.AppendUint16(b, uint16(40+len(payload)))
	b = append(b, 0, 0, 0x40, 0, 64, 6, 0, 0, 192, 0, 2, byte(1+side), 192, 0, 2, byte(2-side))
	b = be.AppendUint16(b, ports[side])
	b = be.AppendUint16(b, ports[1-side])
	b = be.AppendUint32(b, c.sequence[side])
	b = be.AppendUint32(b, c.sequence[1-side])
	b = append(b, 0x50, 0x18, 0xff, 0xff, 0, 0, 0, 0)
	b = append(b, payload...)
	c.sequence[side] += uint32(len(payload))
	c.file = be.AppendUint64(c.file, 0) // time
	c.file = be.AppendUint32(c.file, uint32(len(b)))
	c.file = be.AppendUint32(c.file, uint32(len(b)))
	c.file = append(c.file, b...)
}

// send adds a Send that side sends.
func (c *capture) send(side int, message []byte) {
	c.msn[side]++
	ulpdu := rawpeer.Untagged(wire.Untagged{Op: wire.Send, Last: true, MSN: c.msn[side]}, message)
	fpdu := make([]byte, wire.FPDUSize(len(ulpdu)))
	wire.PutFPDU(fpdu, ulpdu, true)
	c.segment(side, fpdu)
}

// version2Fields are the fields of the dissector of version 2, without the prefix of their names.
var version2Fields = []string{
	"xid", "version", "credit", "htype", "err", "vers_low", "vers_high", "max_chunks", "max_segments", "chunk_index", "length_needed",
	"inv_handle", "remaining", "segments", "position", "handle", "length", "offset", "properties", "property", "property_length",
	"property_value", "token", "property_data", "part", "payload", "malformed",
}

// dissect2 runs tshark with the dissector of version 2 on c. It returns what it says about each Send: the fields
// that have a value, as "field=value", with a comma between the values of a field.
func dissect2(t *testing.T, c *capture) []string {
	t.Helper()
	if _, err := exec.LookPath("tshark"); err != nil {
		t.Skip("no tshark")
	}
	file := filepath.Join(t.TempDir(), "version2.pcap")
	if err := os.WriteFile(file, c.file, 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{"-X", "lua_script:rpcrdma2.lua", "-r", file, "-Y", "iwarp_ddp_rdmap", "-T", "fields", "-e", "frame.protocols"}
	for _, field := range version2Fields {
		args = append(args, "-e", "rpcordma2."+field)
	}
	run := exec.Command("tshark", args...)
	var said strings.Builder
	run.Stderr = &said
	out, err := run.Output()
	if err != nil || strings.Contains(said.String(), "Lua") {
		t.Fatalf("%v: %s", err, said.String())
	}
	var all []string
	for line := range strings.Lines(string(out)) {
		values := strings.Split(strings.TrimRight(line, "\n"), "\t")
		var fields []string
		if strings.HasSuffix(values[0], ":rpc") {
			fields = append(fields, "rpc")
		}
		for i, v := range values[1:] {
			if v != "" {
				fields = append(fields, version2Fields[i]+"="+v)
			}
		}
		all = append(all, strings.Join(fields, " "))
	}
	return all
}

// version2Named is what the dissector says about the messages of wiretest.Version2.
var version2Named = map[string]string{
	"RDMA2_GRANT": "xid=0x00000000 version=2 credit=37 htype=5",
	"RDMA2_CONNPROP_FINAL, a client's first message": "xid=0x0badcafe version=2 credit=32 htype=7 properties=3 property=1,2,5 property_length=4,4,4 " +
		"property_value=65536,65536,1",
	"RDMA2_CONNPROP_MIDDLE, a token of host authentication": "xid=0x0badcaff version=2 credit=32 htype=6 properties=1 property=6 property_length=12 " +
		"token=68656c6c6f",
	"RDMA2_ERR_VERS of a responder that knows version 1 only": "xid=0x0badcafe version=2 credit=1 htype=4 err=1 vers_low=1 vers_high=1",
	"RDMA2_ERR_VERS for version 9":                            "xid=0x00000011 version=9 credit=33 htype=4 err=1 vers_low=1 vers_high=2",
	"RDMA2_CALL_INLINE, NULL": "rpc xid=0x01020304 version=2 credit=34 htype=10 inv_handle=0x00000000 " +
		"payload=010203040000000000000002000186a3000000040000000000000000000000000000000000000000",
	"RDMA2_CALL_INLINE, chunks of all kinds": "xid=0x00000021 version=2 credit=48 htype=10 inv_handle=0x0000aaaa segments=1,1 position=104,104 " +
		"handle=0x0000aaaa,0x0000aaab,0x0000bbbb,0x0000cccc length=4096,1001,8192,16384 " +
		"offset=0x00007f0000001000,0x00007f0000005000,0x0000000000010000,0x0000000000020000 " +
		"payload=000000210000000000000002000186a3000000040000000000000000000000000000000000000000",
	"RDMA2_CALL_MIDDLE, NULL in two parts": "xid=0x01020304 version=2 credit=48 htype=9 remaining=24 part=010203040000000000000002000186a3",
	"RDMA2_CALL_INLINE, the second part": "xid=0x01020304 version=2 credit=48 htype=10 inv_handle=0x00000000 " +
		"part=000000040000000000000000000000000000000000000000",
	"RDMA2_CALL_EXTERNAL, the shortest": "xid=0x00000027 version=2 credit=48 htype=8 inv_handle=0x00000000 position=0 handle=0x0000000d " +
		"length=40 offset=0x0000000000000100",
	"RDMA2_REPLY_EXTERNAL, a Reply chunk of two segments": "xid=0x00000022 version=2 credit=48 htype=11 segments=2 handle=0x0000cccc,0x0000cccd length=4096,904 " +
		"offset=0x0000000000020000,0x0000000000030000",
	"RDMA2_REPLY_INLINE, a Write chunk of two segments": "xid=0x00000023 version=2 credit=48 htype=13 segments=2 handle=0x0000bbbb,0x0000bbbc length=1000,0 " +
		"offset=0x0000000000010000,0x0000000000014000 payload=000000230000000100000000000000000000000000000000",
	"RDMA2_REPLY_MIDDLE, a reply to NULL in two parts": "xid=0x01020304 version=2 credit=48 htype=12 remaining=16 part=0102030400000001",
	"RDMA2_REPLY_INLINE, the second part":              "xid=0x01020304 version=2 credit=48 htype=13 part=00000000000000000000000000000000",
	"RDMA2_ERR_WRITE_RESOURCE":                         "xid=0x00000024 version=2 credit=48 htype=4 err=9 chunk_index=1 length_needed=65536",
	"RDMA2_ERR_READ_CHUNKS, none":                      "xid=0x00000025 version=2 credit=48 htype=4 err=6 max_chunks=0",
	"RDMA2_ERR_BAD_XDR":                                "xid=0x00000026 version=2 credit=48 htype=4 err=2",
}

// The dissector names each field of each message of version 2, and finds no fault in it. It gives the RPC message of one
// without chunks to tshark's own dissector.
func TestVersion2Fields(t *testing.T) {
	c := newCapture()
	for _, m := range wiretest.Version2 {
		side := fromClient
		if strings.Contains(m.Name, "REPLY") || strings.Contains(m.Name, "_ERR_") {
			side = fromServer
		}
		c.send(side, wiretest.Hex(m.Hex))
	}
	all := dissect2(t, c)
	if len(all) != len(wiretest.Version2) || len(all) != len(version2Named) {
		t.Fatalf("%d of %d messages, %d expected", len(all), len(wiretest.Version2), len(version2Named))
	}
	for i, m := range wiretest.Version2 {
		if want := version2Named[m.Name]; all[i] != want {
			t.Errorf("%s:\n%s, want\n%s", m.Name, all[i], want)
		}
	}
}

// The dissector says that a header that ends early is malformed, and leaves messages of version 1 alone.
func TestVersion2Faults(t *testing.T) {
	c := newCapture()
	var cut []string
	for _, m := range wiretest.Version2 {
		before, _, _ := strings.Cut(m.Hex, "|")
		for header, n := wiretest.Hex(before), 16; n < len(header); n += 4 {
			// Without its code, an error of another version is no message of version 2.
			if binary.BigEndian.Uint32(header[4:]) == 2 {
				c.send(fromClient, header[:n])
				cut = append(cut, fmt.Sprintf("%s, cut to %d bytes", m.Name, n))
			}
		}
	}
	for _, header := range wiretest.Headers {
		c.send(fromClient, wiretest.Hex(header))
	}
	all := dissect2(t, c)
	if len(all) != len(cut)+len(wiretest.Headers) {
		t.Fatalf("%d of %d messages", len(all), len(cut)+len(wiretest.Headers))
	}
	for i, what := range cut {
		if !strings.Contains(all[i], "malformed=") {
			t.Errorf("%s: %s", what, all[i])
		}
	}
	for i, header := range wiretest.Headers {
		if got := all[len(cut)+i]; strings.Contains(got, "version=") {
			t.Errorf("version 1's %s: %s", header, got)
		}
	}
}

// The dissector claims what only version 2 can have sent: types that it does not know, and errors about messages of other
// versions. It leaves errors of version 1 to Wireshark, and what is no message of version 2.
func TestVersion2Claims(t *testing.T) {
	messages := []struct{ hex, want string }{
		{"00000007 00000002 00000030 0000000e 01020304", "xid=0x00000007 version=2 credit=48 htype=14"},
		{"00000007 00000002 00000030 00000000 00000000 00000000 00000000", "xid=0x00000007 version=2 credit=48 htype=0"},
		{"00000007 00000001 00000030 00000004 0000000b", "xid=0x00000007 version=1 credit=48 htype=4 err=11"},
		{"00000007 00000001 00000030 00000004 00000004", "xid=0x00000007 version=1 credit=48 htype=4 err=4"},
		{"00000007 00000009 00000030 00000004 0000000b", "xid=0x00000007 version=9 credit=48 htype=4 err=11"},
		{"00000007 00000002 00000030 00010000", ""},
		{"00000007 00000009 00000030 00000005", ""},
		// Wireshark gives all that comes later on the connection to its dissector of version 1.
		{"00000007 00000001 00000030 00000004 00000001 00000001 00000001", ""},
		{"00000007 00000001 00000030 00000004 00000002", ""},
	}
	c := newCapture()
	for _, m := range messages {
		c.send(fromServer, wiretest.Hex(m.hex))
	}
	all := dissect2(t, c)
	if len(all) != len(messages) {
		t.Fatalf("%d of %d messages", len(all), len(messages))
	}
	for i, m := range messages {
		if all[i] != m.want {
			t.Errorf("%s:\n%s, want\n%s", m.hex, all[i], m.want)
		}
	}
}
