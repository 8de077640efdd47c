package iwarp

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/rawpeer"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// The initiator's request has the bytes that its Config asks for. IW-306: it asks for CRCs by
// default. IW-414: a request of revision 1 has no enhanced data. IW-110: it asks for no more Reads
// than its caps allow. IW-312: its reserved flags are zero.
func TestInitiatorRequest(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  Config
		want string
	}{
		"default":       {Config{}, "4d504120494420526571204672616d65 5002 0006 8002c003 6869"},
		"client-server": {Config{ClientServer: true}, "4d504120494420526571204672616d65 5002 0006 00020003 6869"},
		"CRC off":       {Config{CRC: CRCOff, RTR: wire.RTRSend}, "4d504120494420526571204672616d65 1002 0006 c0020003 6869"},
		"IW-110 caps":   {Config{MaxIRD: 1, MaxORD: 2}, "4d504120494420526571204672616d65 5002 0006 8001c002 6869"},
		"revision 1":    {Config{Revision: 1}, "4d504120494420526571204672616d65 4001 0002 6869"},
	} {
		t.Run(name, func(t *testing.T) {
			l := rawpeer.Listen(t)
			_, dialed := dialing(t, c.cfg, l, func(p *rdmacm.ConnParam) { p.PrivateData = []byte("hi") })
			raw := l.Accept()
			want := rawpeer.Hex(t, c.want)
			if got := raw.ReadBytes(len(want)); !bytes.Equal(got, want) {
				t.Errorf("got  %x\nwant %x", got, want)
			}
			raw.WriteFrame(true, rawpeer.Frame{Revision: 2, Flags: wire.MPARejected, Enhanced: &wire.Enhanced{}, Private: []byte("why")})
			// IW-315: Dial reports a refusal, with its private data.
			err := wait(t, dialed)
			if e, ok := errors.AsType[*rdmacm.RejectedError](err); !ok || string(e.PrivateData) != "why" {
				t.Errorf("dialed with %v", err)
			}
			raw.ReadEnd()
		})
	}
}

// IW-310, IW-311, IW-313, IW-316, IW-401: an invalid reply ends the set-up.
func TestInitiatorClosesOnBadReplies(t *testing.T) {
	for name, reply := range map[string]string{
		"IW-310 request key":             "4d504120494420526571204672616d65 1002 0004 00000000",
		"IW-316 junk":                    "00000000000000000000000000000000 0000 0000",
		"IW-311 513 bytes":               "4d504120494420526570204672616d65 1002 0201",
		"IW-313 revision 3":              "4d504120494420526570204672616d65 1003 0004 00000000",
		"IW-313 revision 0":              "4d504120494420526570204672616d65 1000 0004 00000000",
		"IW-401 no enhanced data":        "4d504120494420526570204672616d65 1002 0000",
		"IW-401 2 bytes of it":           "4d504120494420526570204672616d65 1002 0002 0000",
		"IW-311 EOF in the private data": "4d504120494420526570204672616d65 1002 0008 00000000",
	} {
		t.Run(name, func(t *testing.T) {
			l := rawpeer.Listen(t)
			_, dialed := dialing(t, Config{ClientServer: true}, l, nil)
			raw := l.Accept()
			raw.ReadFrame(false)
			raw.WriteHex(reply)
			if strings.Contains(name, "EOF") {
				raw.CloseWrite()
			}
			if err := wait(t, dialed); err == nil {
				t.Error("connected")
			}
			raw.ReadEnd()
		})
	}
}

// IW-405, IW-407, IW-408, IW-74, IW-75: the initiator adapts its read depths to the reply. Here it asks for 3
// Reads of its own and 2 of the peer.
func TestInitiatorSettlesReadDepths(t *testing.T) {
	for name, c := range map[string]struct {
		ird, ord    uint16
		have, depth int
	}{
		"as asked":                        {3, 2, 2, 3},
		"IW-405 ORD is lowered":           {1, 2, 2, 1},
		"IW-405 IRD is raised":            {9, 7, 7, 3},
		"IW-405 no Reads":                 {0, 0, 2, 0},
		"IW-408 unset depths leave alone": {wire.DepthUnset, wire.DepthUnset, 2, 3},
	} {
		t.Run(name, func(t *testing.T) {
			l := rawpeer.Listen(t)
			s, dialed := dialing(t, Config{ClientServer: true}, l, nil)
			raw := l.Accept()
			raw.Respond(rawpeer.Frame{Revision: 2, Enhanced: &wire.Enhanced{IRD: c.ird, ORD: c.ord}})
			if err := wait(t, dialed); err != nil {
				t.Fatal(err)
			}
			if a := s.agreed; a.IRD != c.have || a.ORD != c.depth || s.ReadDepth() != c.depth || a.PeerIRD != int(c.ird) || a.PeerORD != int(c.ord) {
				t.Errorf("%+v, depth %d", a, s.ReadDepth())
			}
		})
	}
}

// IW-406, IW-411, IW-78: if the initiator cannot accept the reply, it sends a Terminate with a
// cause of the layer MPA.
func TestInitiatorTerminatesAfterUnacceptableReply(t *testing.T) {
	for name, c := range map[string]struct {
		cfg   Config
		reply wire.Enhanced
		want  wire.Cause
	}{
		"IW-406 more Reads than can be served": {Config{}, wire.Enhanced{ORD: 10000}, wire.MPAReadDepth},
		"IW-411 no common form":                {Config{RTR: wire.RTRWrite}, wire.Enhanced{PeerToPeer: true, RTR: wire.RTRSend}, wire.MPANoRTR},
		"IW-411 no form at all":                {Config{}, wire.Enhanced{PeerToPeer: true}, wire.MPANoRTR},
		"IW-411 a Read without a place for it": {Config{RTR: wire.RTRRead}, wire.Enhanced{PeerToPeer: true, RTR: wire.RTRRead}, wire.MPANoRTR},
	} {
		t.Run(name, func(t *testing.T) {
			l := rawpeer.Listen(t)
			_, dialed := dialing(t, c.cfg, l, nil)
			raw := l.Accept()
			raw.Respond(rawpeer.Frame{Revision: 2, Enhanced: &c.reply})
			if got := raw.ReadTerminate(c.want); len(got.DDP) > 0 {
				t.Error("MPA's errors quote nothing")
			}
			raw.Conn.Close()
			err := wait(t, dialed)
			if e, ok := errors.AsType[*TerminateError](err); !ok || e.Cause != c.want || !errors.Is(err, rdmacm.ErrSetup) {
				t.Errorf("dialed with %v", err)
			}
		})
	}
}

// IW-410: the agreed ready-to-receive message comes first, before any posted work; the initiator
// prefers a Write to a Read, and a Read to a Send.
func TestInitiatorSaysReadyFirst(t *testing.T) {
	const all = wire.RTRSend | wire.RTRWrite | wire.RTRRead
	for _, c := range []struct {
		mine, theirs wire.RTR
		want         wire.Opcode
	}{
		{all, all, wire.Write}, {all, wire.RTRRead | wire.RTRSend, wire.ReadRequest}, {all, wire.RTRSend, wire.Send},
		{wire.RTRRead, all, wire.ReadRequest}, {wire.RTRSend, all, wire.Send}, {0, all, wire.Write},
	} {
		l := rawpeer.Listen(t)
		s, dialed := dialing(t, Config{RTR: c.mine}, l, nil)
		raw := l.Accept()
		f := raw.Respond(rawpeer.Frame{Revision: 2, Enhanced: &wire.Enhanced{PeerToPeer: true, RTR: c.theirs, IRD: 3}})
		if !f.Enhanced.PeerToPeer {
			t.Fatal("flag A is not set")
		}
		if err := wait(t, dialed); err != nil {
			t.Fatal(err)
		}
		sent := post(s.Conn, send([]byte("posted")))
		first := raw.ReadOp(c.want)
		switch {
		case c.want == wire.ReadRequest:
			q := wire.ParseRead(first.Payload)
			if q.Size != 0 || first.Untagged.MSN != 1 {
				t.Errorf("%+v: %+v", first.Untagged, q)
			}
			raw.WriteFPDU(rawpeer.Tagged(wire.Tagged{Op: wire.ReadResponse, Last: true}, nil))
		case len(first.Payload) > 0 || !first.Last:
			t.Errorf("%x", first.ULPDU)
		}
		if m := raw.ReadOp(wire.Send); string(m.Payload) != "posted" {
			t.Errorf("%q", m.Payload)
		}
		good(t, sent)
		// The ULP does not get the Response to the ready-to-receive Read, and that Read does not
		// count any more.
		for range s.ReadDepth() {
			post(s.Conn, rdmacm.Work{Op: rdmacm.OpRead, Local: [][]byte{make([]byte, 1)}})
			raw.ReadOp(wire.ReadRequest)
		}
	}
}

// An initiator that receives nothing sends an empty Write, which wakes a responder that missed
// input during its set-up, as siw does. After it has received something, it does not.
func TestInitiatorNudges(t *testing.T) {
	l := rawpeer.Listen(t)
	s, dialed := dialing(t, Config{}, l, nil)
	raw := l.Accept()
	raw.Respond(rawpeer.Frame{Revision: 2, Enhanced: &wire.Enhanced{PeerToPeer: true, RTR: wire.RTRWrite}})
	if err := wait(t, dialed); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if f := raw.ReadOp(wire.Write); len(f.Payload) > 0 {
			t.Errorf("%x", f.Payload)
		}
	}
	raw.WriteFPDU(raw.Send([]byte("awake")))
	wait(t, s.received)
	good(t, post(s.Conn, send([]byte("at last"))))
	raw.ReadOp(wire.Send)
}

// IW-76: the ready-to-receive Read counts as one of the agreed number of outstanding Reads.
func TestReadyReadCounts(t *testing.T) {
	l := rawpeer.Listen(t)
	s, dialed := dialing(t, Config{RTR: wire.RTRRead}, l, nil)
	raw := l.Accept()
	raw.Respond(rawpeer.Frame{Revision: 2, Enhanced: &wire.Enhanced{PeerToPeer: true, RTR: wire.RTRRead, IRD: 1}})
	if err := wait(t, dialed); err != nil {
		t.Fatal(err)
	}
	raw.ReadOp(wire.ReadRequest)
	post(s.Conn, rdmacm.Work{Op: rdmacm.OpRead, Local: [][]byte{make([]byte, 1)}})
	if raw.Pending() {
		t.Fatal("a second Read while the first is out")
	}
	raw.WriteFPDU(rawpeer.Tagged(wire.Tagged{Op: wire.ReadResponse, Last: true}, nil))
	if q := wire.ParseRead(raw.ReadOp(wire.ReadRequest).Payload); q.Size != 1 {
		t.Errorf("%+v", q)
	}
}

// A responder may send at once after its reply. The initiator treats bytes that arrive together
// with the reply as FPDUs.
func TestInitiatorTakesFPDUsGluedToTheReply(t *testing.T) {
	l := rawpeer.Listen(t)
	s, dialed := dialing(t, Config{CRC: CRCOff}, l, nil)
	raw := l.Accept()
	raw.ReadFrame(false)
	reply := rawpeer.Hex(t, "4d504120494420526570204672616d65 1002 0004 00030002")
	raw.Write(append(reply, raw.Bytes(raw.Send([]byte("early")))...))
	if err := wait(t, dialed); err != nil {
		t.Fatal(err)
	}
	if m := wait(t, s.received); string(m) != "early" {
		t.Errorf("%q", m)
	}
}

// IW-400: if a responder closes the connection after a request of revision 2, or replies without
// enhanced data, the initiator tries revision 1, once.
func TestInitiatorFallsBackToRevision1(t *testing.T) {
	for name, first := range map[string]func(*rawpeer.Peer){
		"EOF":   func(p *rawpeer.Peer) { p.Conn.Close() },
		"reset": func(p *rawpeer.Peer) { p.Reset() },
		"plain": func(p *rawpeer.Peer) { p.WriteFrame(true, rawpeer.Frame{Revision: 1}) },
	} {
		t.Run(name, func(t *testing.T) {
			l := rawpeer.Listen(t)
			s, dialed := dialing(t, Config{}, l, nil)
			raw := l.Accept()
			raw.ReadFrame(false)
			first(raw)
			raw = l.Accept()
			f := raw.Respond(rawpeer.Frame{Revision: 1, Private: []byte("old")})
			if f.Revision != 1 || f.Enhanced != nil {
				t.Errorf("second request %+v", f)
			}
			if err := wait(t, dialed); err != nil {
				t.Fatal(err)
			}
			if s.agreed.Revision != 1 || string(s.PeerPrivateData()) != "old" || s.ReadDepth() != 3 {
				t.Errorf("%+v, %q", s.agreed, s.PeerPrivateData())
			}
			raw.ReadOp(wire.Write)
		})
	}
	l := rawpeer.Listen(t)
	_, dialed := dialing(t, Config{}, l, nil)
	for range 2 {
		raw := l.Accept()
		raw.ReadFrame(false)
		raw.Reset()
	}
	if err := wait(t, dialed); err == nil {
		t.Error("connected")
	}
}

// IW-319: the whole set-up has a deadline, from the configuration or from the caller.
func TestInitiatorSetupTimeout(t *testing.T) {
	l := rawpeer.Listen(t)
	_, dialed := dialing(t, Config{SetupTimeout: 50 * time.Millisecond}, l, nil)
	if err := wait(t, dialed); !errors.Is(err, rdmacm.ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("dialed with %v", err)
	}
	p := provider(t, Config{})
	ctx, cancel := context.WithCancel(context.Background())
	got := make(chan error)
	go func() {
		_, err := p.Dial(ctx, l.Addr(), param(newTester()))
		got <- err
	}()
	cancel()
	if err := wait(t, got); !errors.Is(err, context.Canceled) {
		t.Errorf("dialed with %v", err)
	}
}

// IW-307: the connection uses CRCs if the initiator's request or the reply asks for them. IW-312:
// reserved flags of the reply do not matter.
func TestInitiatorCRC(t *testing.T) {
	for _, c := range []struct {
		mode  CRCMode
		reply bool
		want  bool
	}{{CRCOff, false, false}, {CRCOff, true, true}, {CRCPeer, false, true}, {CRCOn, true, true}} {
		l := rawpeer.Listen(t)
		s, dialed := dialing(t, Config{CRC: c.mode, ClientServer: true}, l, nil)
		raw := l.Accept()
		f := rawpeer.Frame{Revision: 2, Flags: 0x0f, Enhanced: &wire.Enhanced{}}
		if c.reply {
			f.Flags |= wire.MPAChecksum
		}
		raw.Respond(f)
		if err := wait(t, dialed); err != nil {
			t.Fatal(err)
		}
		if s.agreed.CRC != c.want || raw.CRC != c.want {
			t.Errorf("%+v: CRC %v", c, s.agreed.CRC)
		}
		good(t, post(s.Conn, send([]byte("x"))))
		raw.ReadOp(wire.Send)
		raw.WriteFPDU(raw.Send([]byte("y")))
		wait(t, s.received)
	}
}
