package iwarp

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/rawpeer"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// IW-81: after a fault, this side does not place the rest of the FPDU that it is receiving.
// IW-105: it does not do so after Deregister either. Deregister does not wait for the peer.
func TestDeregisterDuringAWrite(t *testing.T) {
	for _, head := range []int{1000, 20_000} {
		raw, s := passive(t, Config{})
		memory := make([]byte, 60_000)
		r := s.expose(memory, rdmacm.RemoteWrite)
		b := raw.Bytes(rawpeer.Tagged(wire.Tagged{Op: wire.Write, Last: true, STag: r.STag(), Offset: r.Offset()}, bytes.Repeat([]byte{1}, len(memory))))
		raw.WriteFPDU(raw.Send(nil))
		wait(t, s.received)
		raw.Write(b[:16+head])
		// The peer stops sending. The test deregisters the memory and uses it for something else.
		if err := r.Deregister(); err != nil {
			t.Fatal(err)
		}
		for i := range memory {
			memory[i] = 9
		}
		raw.Write(append(b[16+head:], raw.Bytes(raw.Send(nil))...))
		raw.ReadTerminate(wire.DDPInvalidSTag)
		raw.Conn.Close()
		s.terminated(wire.DDPInvalidSTag, false)
		if !bytes.Equal(memory, bytes.Repeat([]byte{9}, len(memory))) {
			t.Error("placed after Deregister")
		}
	}
}

// IW-84, IW-105: if memory is deregistered while a Read of it is being answered, this side does
// not read the memory any more. FPDUs that are built but not sent are sent from a copy; the rest
// of the Response is not sent. The Terminate quotes the remaining part of the request.
func TestDeregisterDuringARead(t *testing.T) {
	for _, crc := range []CRCMode{CRCOff, CRCOn} {
		// LingerTimeout is long, so that the peer can read up to the Terminate.
		raw, s := passive(t, Config{CRC: crc, LingerTimeout: time.Minute})
		raw.CRC = crc == CRCOn
		memory := bytes.Repeat([]byte{1}, 64<<20)
		r := s.expose(memory, rdmacm.RemoteRead)
		raw.WriteFPDU(raw.ReadRequest(wire.Read{SinkSTag: 5, SinkOffset: 500, Size: uint32(len(memory)), SourceSTag: r.STag(), SourceOffset: r.Offset()}))
		first := raw.ReadOp(wire.ReadResponse)
		if err := r.Deregister(); err != nil {
			t.Fatal(err)
		}
		for i := range memory {
			memory[i] = 2
		}
		got := len(first.Payload)
		for {
			f := raw.ReadFPDU()
			if f.Op == wire.Terminate {
				term, err := wire.ParseTermination(f.Payload)
				if err != nil || term.Cause != wire.RDMAPInvalidSTag || len(term.RDMAP) == 0 {
					t.Fatalf("%+v, %v", term, err)
				}
				q := wire.ParseRead(term.RDMAP)
				if q.SinkOffset != 500+uint64(got) || q.SourceOffset != r.Offset()+uint64(got) || int(q.Size) != len(memory)-got {
					t.Errorf("%d bytes were answered; quoted %+v", got, q)
				}
				break
			}
			if !bytes.Equal(f.Payload, bytes.Repeat([]byte{1}, len(f.Payload))) {
				t.Fatal("memory was read after Deregister")
			}
			got += len(f.Payload)
		}
		raw.ReadEOF()
		raw.Conn.Close()
		s.terminated(wire.RDMAPInvalidSTag, false)
	}
}

// IW-103: the end of a connection invalidates all its memory.
func TestRegisterAfterTheEnd(t *testing.T) {
	_, s := active(t, Config{CRC: CRCOff})
	r := s.expose(make([]byte, 8), rdmacm.RemoteRead)
	s.Abort(nil)
	s.ended()
	if s.p.stags.lookup(r.STag()) != nil {
		t.Error("the STag lives on")
	}
	if _, err := s.Register(make([]byte, 8), rdmacm.RemoteRead); !errors.Is(err, rdmacm.ErrClosed) {
		t.Errorf("Register: %v", err)
	}
	if err := r.Deregister(); err != nil {
		t.Error(err)
	}
}
