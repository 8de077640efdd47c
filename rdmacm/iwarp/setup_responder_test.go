package iwarp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/rawpeer"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// IW-310, IW-311, IW-313, IW-314, IW-323, IW-401, IW-82: an invalid request closes the connection
// at once, does not reach Accept, and is reported by an event.
func TestResponderClosesOnBadRequests(t *testing.T) {
	for name, request := range map[string]string{
		"IW-310 reply key":                  "4d504120494420526570204672616d65 0001 0000",
		"IW-310 garbled key":                "4d504120494420526571204672616d66 0001 0000",
		"IW-311 513 bytes":                  "4d504120494420526571204672616d65 0001 0201",
		"IW-311 65535 bytes":                "4d504120494420526571204672616d65 0001 ffff",
		"IW-313 revision 0":                 "4d504120494420526571204672616d65 0000 0000",
		"IW-313 revision 3":                 "4d504120494420526571204672616d65 0003 0000",
		"IW-314 FPDU":                       "000e c140 00000001 0000000000000000 ebd34c5f",
		"IW-401 no enhanced data":           "4d504120494420526571204672616d65 1002 0000",
		"IW-401 3 bytes of enhanced data":   "4d504120494420526571204672616d65 1002 0003 000000",
		"text":                              "474554202f20485454502f312e310d0a 0d0a0d0a",
		"IW-311 EOF inside private data":    "4d504120494420526571204672616d65 0001 0008 01020304",
		"IW-311 EOF inside the frame":       "4d50412049442052",
		"IW-310 EOF before anything":        "",
		"IW-401 revision 2, 1 byte of data": "4d504120494420526571204672616d65 1002 0001 00",
	} {
		t.Run(name, func(t *testing.T) {
			events := make(chan rdmacm.Event, 1)
			// The set-up's deadline is long, so it does not close the connection.
			l := listen(t, provider(t, Config{SetupTimeout: time.Hour, Event: func(e rdmacm.Event) { events <- e }}))
			go func() {
				if r, err := l.Accept(); err == nil {
					t.Errorf("a request of %q reaches the ULP", r.PrivateData())
					r.Reject(nil)
				}
			}()
			raw := rawpeer.Dial(t, l.Addr())
			raw.WriteHex(request)
			if strings.Contains(name, "EOF") {
				raw.CloseWrite()
			}
			raw.ReadEnd()
			if request == "" {
				return // the Door may have dropped it before its set-up began
			}
			if e := wait(t, events); e.Kind != rdmacm.EventSetupFailed || !errors.Is(e.Err, rdmacm.ErrSetup) {
				t.Errorf("event %v: %v", e.Kind, e.Err)
			}
		})
	}
}

// IW-312: the responder ignores reserved flags, and sends none (ReadFrame checks that). In revision 1, the flag for enhanced data is one
// of them (IW-400).
func TestResponderIgnoresReservedFlags(t *testing.T) {
	for _, f := range []rawpeer.Frame{
		{Revision: 1, Flags: 0x0f}, {Revision: 1, Flags: 0x1f}, {Revision: 2, Flags: 0x0f},
	} {
		_, _, reply := passiveOn(t, listen(t, provider(t, Config{})), f, nil)
		if reply.Flags != 0 || reply.Revision != f.Revision || reply.Enhanced != nil {
			t.Errorf("%+v: reply %+v", f, reply)
		}
	}
}

// IW-400, IW-402: the reply has the request's revision, and has enhanced data if and only if the
// request has them.
func TestResponderMirrorsTheRequest(t *testing.T) {
	for _, f := range []rawpeer.Frame{
		{Revision: 1}, {Revision: 2}, {Revision: 2, Enhanced: &wire.Enhanced{IRD: 4, ORD: 4}},
	} {
		f.Private = []byte("private")
		for _, answer := range []string{"yes", "no", ""} { // "": a refusal without private data
			refuse := answer != "yes"
			l := listen(t, provider(t, Config{}))
			raw := rawpeer.Dial(t, l.Addr())
			raw.WriteFrame(false, f)
			r, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(r.PrivateData(), f.Private) {
				t.Errorf("private data %q", r.PrivateData())
			}
			if refuse {
				if err := r.Reject([]byte(answer)); err != nil {
					t.Fatal(err)
				}
			} else {
				h := newTester()
				p := param(h)
				p.PrivateData = []byte(answer)
				c, err := r.Accept(p)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { c.Abort(nil); wait(t, c.Done()) }()
			}
			reply := raw.ReadFrame(true)
			if reply.Revision != f.Revision || (reply.Enhanced != nil) != (f.Enhanced != nil) ||
				string(reply.Private) != answer || (reply.Flags&wire.MPARejected != 0) != refuse {
				t.Errorf("request %+v: reply %+v", f, reply)
			}
			if refuse {
				// IW-315: siw loses a refusal if a FIN follows closely.
				raw.CloseWrite()
				raw.ReadEOF()
			}
		}
	}
}

// IW-403, IW-404, IW-407, IW-408, IW-74, IW-75, IW-110: the responder computes the read depths
// from the request, its own wishes and its caps. The caps are 16 here, and no peer exceeds them
// (IW-113).
func TestResponderSettlesReadDepths(t *testing.T) {
	const unset = wire.DepthUnset
	for name, c := range map[string]struct {
		ird, ord           uint16 // in the peer's request
		inbound, outbound  int    // wanted by this side's ULP
		replyIRD, replyORD uint16
		haveIRD, depth     int
	}{
		"IW-403 ORD is at most the request's IRD": {3, 0, 0, 10, 0, 3, 0, 3},
		"Linux NFS client":                        {128, 0, 0, 10, 0, 10, 0, 10},
		"never ORD 0 where Reads are possible":    {128, 0, 0, 0, 0, 1, 0, 0},
		"no Reads at all":                         {0, 0, 0, 10, 0, 0, 0, 0},
		"IW-404 IRD is at least the request's":    {0, 9, 2, 0, 9, 0, 9, 0},
		"IW-404 own need is more":                 {0, 2, 9, 0, 9, 0, 9, 0},
		"IW-110 caps":                             {128, 128, 200, 200, 16, 16, 16, 16},
		"IW-408 unset ORD":                        {4, unset, 3, 4, unset, 4, 16, 4},
		"IW-408 unset IRD":                        {unset, 4, 3, 9, 4, unset, 4, 9},
	} {
		t.Run(name, func(t *testing.T) {
			f := rawpeer.Frame{Revision: 2, Enhanced: &wire.Enhanced{IRD: c.ird, ORD: c.ord}}
			_, s, reply := passiveOn(t, listen(t, provider(t, Config{MaxIRD: 16, MaxORD: 16})), f, func(p *rdmacm.ConnParam) {
				p.InboundReads, p.OutboundReads = c.inbound, c.outbound
			})
			if e := *reply.Enhanced; e != (wire.Enhanced{IRD: c.replyIRD, ORD: c.replyORD}) {
				t.Errorf("reply %+v", e)
			}
			if a := s.agreed; a.IRD != c.haveIRD || s.ReadDepth() != c.depth || a.PeerIRD != int(c.ird) || a.PeerORD != int(c.ord) {
				t.Errorf("%+v, depth %d", a, s.ReadDepth())
			}
		})
	}
	// A request of revision 1 states no depths, so only the caps count (IW-110).
	for wanted, depth := range map[int]int{3: 3, 200: 16} {
		_, s, _ := passiveOn(t, listen(t, provider(t, Config{MaxIRD: 16, MaxORD: 16})), rawpeer.Frame{Revision: 1}, func(p *rdmacm.ConnParam) {
			p.InboundReads, p.OutboundReads = wanted, wanted
		})
		if a := s.agreed; a.IRD != 16 || a.ORD != depth || s.ReadDepth() != depth || a.PeerIRD != -1 || a.PeerORD != -1 {
			t.Errorf("revision 1, %d wanted: %+v, depth %d", wanted, a, s.ReadDepth())
		}
	}
}

// IW-409, IW-412: if the request has flag A, the reply has A and at least one form of the
// ready-to-receive message. If it has no A, the reply has neither, whatever the other flags are.
func TestResponderAnswersPeerToPeer(t *testing.T) {
	const all = wire.RTRSend | wire.RTRWrite | wire.RTRRead
	for _, c := range []struct {
		a     bool
		asked wire.RTR
		want  wire.RTR
	}{
		{true, wire.RTRWrite, wire.RTRWrite}, {true, wire.RTRRead, wire.RTRRead}, {true, wire.RTRSend, wire.RTRSend},
		{true, all, all}, {true, 0, all}, {false, 0, 0},
	} {
		f := rawpeer.Frame{Revision: 2, Enhanced: &wire.Enhanced{PeerToPeer: c.a, RTR: c.asked}}
		_, _, reply := passiveOn(t, listen(t, provider(t, Config{})), f, nil)
		if reply.Enhanced.PeerToPeer != c.a || reply.Enhanced.RTR != c.want {
			t.Errorf("%+v: reply %+v", c, *reply.Enhanced)
		}
	}
	// Flags B, C and D without A.
	l := listen(t, provider(t, Config{}))
	raw := rawpeer.Dial(t, l.Addr())
	raw.WriteHex("4d504120494420526571204672616d65 1002 0004 4001 c001")
	r, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c, err := r.Accept(param(newTester()))
	if err != nil {
		t.Fatal(err)
	}
	if b := raw.ReadBytes(24); !bytes.Equal(b[20:], []byte{0, 2, 0, 1}) {
		t.Errorf("enhanced data %x", b[20:])
	}
	c.Abort(nil)
	wait(t, c.Done())
}

// IW-306, IW-307, IW-200: the connection uses CRCs if the responder's mode is CRCOn or the
// request asks for them, even with CRCOff.
func TestResponderCRC(t *testing.T) {
	for _, c := range []struct {
		mode  CRCMode
		asked bool
		want  bool
	}{
		{CRCPeer, false, false}, {CRCPeer, true, true},
		{CRCOn, false, true}, {CRCOn, true, true},
		{CRCOff, false, false}, {CRCOff, true, true},
	} {
		f := rawpeer.LinuxRequest()
		if c.asked {
			f.Flags |= wire.MPAChecksum
		}
		raw, s, reply := passiveOn(t, listen(t, provider(t, Config{CRC: c.mode})), f, nil)
		if got := reply.Flags&wire.MPAChecksum != 0; got != c.want || s.agreed.CRC != c.want {
			t.Errorf("%+v: C=%v, CRC %v", c, got, s.agreed.CRC)
		}
		// CRCs protect both directions, or neither.
		raw.WriteFPDU(raw.Send([]byte("there")))
		wait(t, s.received)
		good(t, post(s.Conn, send([]byte("back"))))
		back := raw.ReadOp(wire.Send)
		// The CRC is the CRC32C, least significant byte first (RFC 5044 §4.4).
		body, crc := back.Raw[:len(back.Raw)-4], binary.LittleEndian.Uint32(back.Raw[len(back.Raw)-4:])
		want := uint32(0)
		if c.want {
			want = crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli))
		}
		if crc != want {
			t.Errorf("%+v: CRC field %#x, want %#x", c, crc, want)
		}
	}
}

// IW-317: the responder sends nothing before the peer's first FPDU, whatever work was posted.
func TestResponderIsSilentBeforeTheFirstFPDU(t *testing.T) {
	raw, s := passive(t, Config{})
	sent := post(s.Conn, send([]byte("greeting")))
	s.Flush()
	if raw.Pending() {
		t.Fatal("bytes behind the reply before the first FPDU")
	}
	pending(t, sent)
	raw.WriteFPDU(rawpeer.Ready())
	if f := raw.ReadOp(wire.Send); string(f.Payload) != "greeting" {
		t.Fatalf("%q", f.Payload)
	}
	good(t, sent)
}

// IW-317: the responder sends nothing after a first FPDU that is not valid, either.
func TestResponderIsSilentAfterABadFirstFPDU(t *testing.T) {
	f := rawpeer.LinuxRequest()
	f.Flags |= wire.MPAChecksum
	raw, s, _ := passiveOn(t, listen(t, provider(t, Config{})), f, nil)
	b := raw.Bytes(rawpeer.Ready())
	b[len(b)-1] ^= 1
	raw.Write(b)
	raw.ReadEnd()
	s.terminated(wire.MPACRC, false)
}

// An initiator must wait for the reply before it sends FPDUs (RFC 5044 §7.1.2). Otherwise Accept
// fails.
func TestResponderRefusesEarlyBytes(t *testing.T) {
	l := listen(t, provider(t, Config{}))
	raw := rawpeer.Dial(t, l.Addr())
	raw.Write(append(requestBytes(t), raw.Bytes(rawpeer.Ready())...))
	r, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Accept(param(newTester())); !errors.Is(err, rdmacm.ErrSetup) {
		t.Fatalf("accepted with %v", err)
	}
	raw.ReadEnd()
}

func requestBytes(t testing.TB) []byte {
	return rawpeer.Hex(t, "4d504120494420526571204672616d65 1002 000c 0080 0000 f6ab0e18 01 01 03 03")
}

// IW-319: a request may arrive in pieces of any size.
func TestResponderTakesFragments(t *testing.T) {
	l := listen(t, provider(t, Config{}))
	raw := rawpeer.Dial(t, l.Addr())
	if err := raw.Conn.SetNoDelay(true); err != nil {
		t.Fatal(err)
	}
	for _, b := range requestBytes(t) {
		raw.Write([]byte{b})
	}
	r, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Reject(nil); err != nil {
		t.Fatal(err)
	}
	raw.ReadFrame(true)
}

// IW-318, IW-319: the responder drops a peer that sends nothing, sends too slowly, or whose
// request the ULP does not accept in time.
func TestResponderSetupTimeout(t *testing.T) {
	events := make(chan rdmacm.Event, 10)
	l := listen(t, provider(t, Config{SetupTimeout: 50 * time.Millisecond, Event: func(e rdmacm.Event) { events <- e }}))
	mute := rawpeer.Dial(t, l.Addr())
	mute.ReadEnd()
	wait(t, events)

	// Each byte comes well within the time limit, but the whole request would take a hundred times
	// as long.
	drip := rawpeer.Dial(t, l.Addr())
	request := requestBytes(t)
	slow := slices.Concat(request[:18], []byte{0x02, 0x00}, make([]byte, 512)) // 512 bytes of private data
	dropped := false
	for _, b := range slow {
		if _, err := drip.Conn.Write([]byte{b}); err != nil {
			dropped = true
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if !dropped {
		t.Fatal("single bytes prolong the set-up")
	}
	wait(t, events)

	ignored := rawpeer.Dial(t, l.Addr())
	ignored.Write(request)
	ignored.ReadEnd()
	if e := wait(t, events); !errors.Is(e.Err, rdmacm.ErrTimeout) {
		t.Errorf("event %v", e.Err)
	}
}

// IW-318: in the peer-to-peer model the initiator's first message has a deadline.
func TestResponderWaitsForReadyNotForEver(t *testing.T) {
	f := rawpeer.Frame{Revision: 2, Enhanced: &wire.Enhanced{PeerToPeer: true, RTR: wire.RTRWrite}}
	raw, s, _ := passiveOn(t, listen(t, provider(t, Config{SetupTimeout: 100 * time.Millisecond})), f, nil)
	raw.ReadEnd()
	if err := s.ended(); !errors.Is(err, rdmacm.ErrTimeout) {
		t.Errorf("closed with %v", err)
	}
}

// The responder accepts each form of the ready-to-receive message (RFC 6581 §9.2). None of them
// reaches the ULP.
func TestResponderTakesEachReadyMessage(t *testing.T) {
	for _, form := range []wire.RTR{wire.RTRWrite, wire.RTRRead, wire.RTRSend} {
		f := rawpeer.Frame{Revision: 2, Enhanced: &wire.Enhanced{PeerToPeer: true, RTR: form}}
		raw, s, _ := passiveOn(t, listen(t, provider(t, Config{})), f, nil)
		sent := post(s.Conn, send([]byte("first")))
		switch form {
		case wire.RTRWrite:
			raw.WriteFPDU(rawpeer.Ready())
		case wire.RTRRead:
			raw.WriteFPDU(raw.ReadRequest(wire.Read{SinkSTag: 9, SinkOffset: 8, SourceSTag: 1}))
			if f := raw.ReadOp(wire.ReadResponse); f.Tagged.STag != 9 || f.Tagged.Offset != 8 || len(f.Payload) > 0 || !f.Last {
				t.Errorf("answer %+v", f.Tagged)
			}
		case wire.RTRSend:
			raw.WriteFPDU(raw.Send(nil))
		}
		raw.ReadOp(wire.Send)
		good(t, sent)
		raw.WriteFPDU(raw.Send([]byte("second")))
		if m := wait(t, s.received); string(m) != "second" {
			t.Errorf("form %d: received %q", form, m)
		}
	}
}

// Closing a listener ends the set-ups in progress. Connections that are set up continue.
func TestListenerClose(t *testing.T) {
	l := listen(t, provider(t, Config{}))
	raw, s, _ := passiveOn(t, l, rawpeer.LinuxRequest(), nil)
	half := rawpeer.Dial(t, l.Addr())
	half.Write(requestBytes(t)[:5])
	whole := rawpeer.Dial(t, l.Addr())
	whole.Write(requestBytes(t))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept after Close: %v", err)
	}
	half.ReadEnd()
	whole.ReadEnd()
	raw.WriteFPDU(raw.Send([]byte("alive")))
	wait(t, s.received)
}
