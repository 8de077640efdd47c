package iwarp

import (
	"bytes"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/rawpeer"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// IW-304, IW-305: if a peer asks for markers, all output of this side has them, also a Terminate.
// rawpeer.Marked checks each marker.
func TestMarkersForAPeerThatWantsThem(t *testing.T) {
	for _, crc := range []wire.MPAFlags{0, wire.MPAChecksum} {
		for _, size := range []FPDUSize{FPDUAuto, FPDUMSS, 1448, MinFPDU} {
			f := rawpeer.LinuxRequest()
			f.Flags = crc | wire.MPAMarkers
			raw, s, reply := passiveOn(t, listen(t, provider(t, Config{MaxFPDU: size})), f, nil)
			if reply.Flags&wire.MPAMarkers != 0 || !s.agreed.Markers {
				t.Errorf("reply %+v, %+v", reply, s.agreed)
			}
			// The peer itself sends no markers.
			raw.WriteFPDU(raw.Send([]byte("plain")))
			wait(t, s.received)
			memory := randomBytes(150_001)
			r := s.expose(memory, rdmacm.RemoteRead)
			m := raw.Marked()
			for n := range 80 {
				good(t, post(s.Conn, send(memory[:n*13])))
				if _, got := m.ReadMessage(wire.Send); !bytes.Equal(got, memory[:n*13]) {
					t.Fatalf("message of %d differs", n*13)
				}
			}
			raw.WriteFPDU(raw.ReadRequest(wire.Read{Size: uint32(len(memory)), SourceSTag: r.STag(), SourceOffset: r.Offset()}))
			if _, got := m.ReadMessage(wire.ReadResponse); !bytes.Equal(got, memory) {
				t.Fatal("Response differs")
			}
			raw.WriteFPDU(rawpeer.Untagged(wire.Untagged{Op: wire.Send, Queue: 9, MSN: 2, Last: true}, nil))
			if f := m.ReadFPDU(); f.Op != wire.Terminate {
				t.Errorf("%v", f.Op)
			}
			raw.ReadEOF()
			raw.Conn.Close()
			s.terminated(wire.DDPQueue, false)
		}
	}
}

// IW-304: the initiator's refusal of a set-up has markers too.
func TestMarkersInARefusal(t *testing.T) {
	l := rawpeer.Listen(t)
	_, dialed := dialing(t, Config{}, l, nil)
	raw := l.Accept()
	raw.Respond(rawpeer.Frame{Revision: 2, Flags: wire.MPAMarkers, Enhanced: &wire.Enhanced{ORD: 10000}})
	f := raw.Marked().ReadFPDU()
	if term, err := wire.ParseTermination(f.Payload); err != nil || f.Op != wire.Terminate || term.Cause != wire.MPAReadDepth {
		t.Errorf("%+v, %v", term, err)
	}
	raw.Conn.Close()
	if err := wait(t, dialed); err == nil {
		t.Error("connected")
	}
}
