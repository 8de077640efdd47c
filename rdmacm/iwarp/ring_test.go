package iwarp

import (
	"bytes"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/rawpeer"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
	"github.com/nfsrdmad/nfsrdmad/test/await"
)

// IW-113, IW-117: a peer that stops in the middle of something does not keep the receive ring.
// All connections of the test share one ring. Six peers stop: within a length, a header, a
// payload (three kinds), and a message. The connection after them still gets the ring.
func TestStoppedPeersHoldNoRing(t *testing.T) {
	l := listen(t, provider(t, Config{Rings: 1}))
	checked := rawpeer.LinuxRequest()
	checked.Flags |= wire.MPAChecksum
	begin := func(f rawpeer.Frame) (*rawpeer.Peer, *side) {
		raw, s, _ := passiveOn(t, l, f, func(p *rdmacm.ConnParam) { p.ReceiveSize = 60_000 })
		raw.WriteFPDU(rawpeer.Ready())
		return raw, s
	}
	writes := func(raw *rawpeer.Peer, s *side) []byte {
		r := s.expose(make([]byte, 60_000), rdmacm.RemoteWrite)
		return raw.Bytes(rawpeer.Tagged(wire.Tagged{Op: wire.Write, Last: true, STag: r.STag(), Offset: r.Offset()}, make([]byte, 60_000)))
	}
	for _, stop := range []struct {
		name  string
		frame rawpeer.Frame
		bytes func(raw *rawpeer.Peer, s *side) []byte
	}{
		{"within a length", rawpeer.LinuxRequest(), func(raw *rawpeer.Peer, _ *side) []byte { return raw.Bytes(raw.Send(nil))[:1] }},
		{"within a header", rawpeer.LinuxRequest(), func(raw *rawpeer.Peer, _ *side) []byte { return raw.Bytes(raw.Send(nil))[:11] }},
		{"within a Send's payload", rawpeer.LinuxRequest(), func(raw *rawpeer.Peer, _ *side) []byte { return raw.Bytes(raw.Send(make([]byte, 50_000)))[:9000] }},
		{"within a Write's payload", rawpeer.LinuxRequest(), func(raw *rawpeer.Peer, s *side) []byte { return writes(raw, s)[:20_000] }},
		{"within a Write's payload, with CRC", checked, func(raw *rawpeer.Peer, s *side) []byte { return writes(raw, s)[:40_000] }},
		{"within a message", rawpeer.LinuxRequest(), func(raw *rawpeer.Peer, _ *side) []byte {
			return raw.Bytes(rawpeer.Untagged(wire.Untagged{Op: wire.Send, MSN: 1}, []byte("half")))
		}},
	} {
		raw, s := begin(stop.frame)
		b := stop.bytes(raw, s)
		all := uint64(len(raw.Bytes(rawpeer.Ready())) + len(b))
		raw.Write(b)
		await.Until(t, stop.name+": all bytes of the peer are taken in", func() bool { return s.rx.arrived.Load() == all })
	}
	raw, s := begin(rawpeer.LinuxRequest())
	raw.WriteFPDU(raw.Send([]byte("hello")))
	if m := wait(t, s.received); string(m) != "hello" {
		t.Errorf("%q", m)
	}
	if n, _ := s.p.rings.Count(); n != 1 {
		t.Errorf("%d rings were made", n)
	}
}

// IW-117: an idle connection does not keep the receive ring, whatever came last: its set-up, a
// message, an answer sent while the message was delivered, an RDMA Write, an RDMA Read of its
// memory, or its end. All connections of the test share one ring. The others are served
// meanwhile, and the idle one is served again later.
func TestIdleConnectionsHoldNoRing(t *testing.T) {
	l := listen(t, provider(t, Config{Rings: 1}))
	begin := func() (*rawpeer.Peer, *side) {
		f := rawpeer.LinuxRequest()
		f.Enhanced.IRD, f.Enhanced.ORD = 2, 2
		raw, s, _ := passiveOn(t, l, f, func(p *rdmacm.ConnParam) { p.Receives = 100 })
		raw.WriteFPDU(rawpeer.Ready())
		s.on(func(r *rdmacm.Recv) {
			post(s.Conn, send(bytes.Clone(r.Bytes)))
			r.Release()
		})
		return raw, s
	}
	echo := func(raw *rawpeer.Peer) {
		t.Helper()
		raw.WriteFPDU(raw.Send([]byte("hello")))
		if got := raw.ReadOp(wire.Send).Payload; string(got) != "hello" {
			t.Errorf("%q", got)
		}
	}
	honest, served := begin()
	for _, stop := range []struct {
		name string
		stop func(raw *rawpeer.Peer, s *side)
	}{
		{"after the set-up", func(*rawpeer.Peer, *side) {}},
		{"after a message in", func(raw *rawpeer.Peer, s *side) {
			answer := make(chan struct{})
			s.on(func(r *rdmacm.Recv) { r.Release(); close(answer) })
			raw.WriteFPDU(raw.Send([]byte("no answer")))
			wait(t, answer)
			s.on(func(r *rdmacm.Recv) { post(s.Conn, send(bytes.Clone(r.Bytes))); r.Release() })
		}},
		{"after an answer", func(raw *rawpeer.Peer, _ *side) { echo(raw) }},
		{"after an RDMA Write", func(raw *rawpeer.Peer, s *side) {
			b := make([]byte, 4)
			r := s.expose(b, rdmacm.RemoteWrite)
			f := raw.Bytes(rawpeer.Tagged(wire.Tagged{Op: wire.Write, Last: true, STag: r.STag(), Offset: r.Offset()}, []byte("data")))
			all := uint64(len(raw.Bytes(rawpeer.Ready())) + len(f))
			raw.Write(f)
			await.Until(t, "the Write is taken in", func() bool { return s.rx.arrived.Load() == all })
		}},
		{"after an RDMA Read of its memory", func(raw *rawpeer.Peer, s *side) {
			r := s.expose([]byte("data"), rdmacm.RemoteRead)
			raw.WriteFPDU(raw.ReadRequest(wire.Read{SinkSTag: 1, Size: 4, SourceSTag: r.STag(), SourceOffset: r.Offset()}))
			raw.ReadOp(wire.ReadResponse)
		}},
		{"after its end", func(raw *rawpeer.Peer, s *side) { s.Abort(nil); s.ended() }},
	} {
		raw, s := begin()
		stop.stop(raw, s)
		echo(honest)
		if stop.name != "after its end" {
			echo(raw)
		}
		echo(honest)
	}
	if n, _ := served.p.rings.Count(); n != 1 {
		t.Errorf("%d rings were made", n)
	}
}
