package rdma

import (
	"encoding/binary"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// readSegments returns the words of a Read list with these positions.
func readSegments(positions ...uint32) (list []uint32) {
	for _, p := range positions {
		list = append(list, 1, p, 0xaaaa, 4, 0, 0)
	}
	return append(list, 0)
}

// chunkOf returns the words of a Write chunk of n segments of 64 bytes.
func chunkOf(n int) []uint32 {
	c := []uint32{uint32(n)}
	for range n {
		c = append(c, 0xbbbb, 64, 0, 0)
	}
	return c
}

func join(lists ...[]uint32) (all []uint32) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

// Each bad message gets the error that the draft has for it, with the message's XID and version. It is not
// served, and the connection continues (V2-21, V2-49, V2-52, V2-53, V2-57, V2-67 to V2-69, V2-77, V2-78, V2-82, V2-83,
// V2-85, V2-87, V2-89, V2-91, V2-94). The error permits another message in the place of the bad one (V2-N17).
func TestBadMessagesOfVersion2(t *testing.T) {
	const xid = 0x2222
	none := []uint32{0}
	inline := func(lists ...[]uint32) []byte {
		return message2(wire.TypeCallInline, xid, join(append([][]uint32{{0}}, lists...)...), rpctest.Message(xid, rpctest.NULL, nil))
	}
	many := make([]uint32, limits2.ReadChunks+1)
	for i := range many {
		many[i] = uint32(4 * (i + 1))
	}
	var writes []uint32
	for range limits2.WriteChunks + 1 {
		writes = append(writes, join([]uint32{1}, chunkOf(0))...)
	}
	half := join([]uint32{1}, chunkOf(limits2.Segments/2+1))
	for name, c := range map[string]struct {
		message []byte
		code    wire.ErrorCode2
		max     uint32
	}{
		"type 0":                         {message2(0, xid, nil, make([]byte, 40)), wire.Err2InvalHtype, 0},
		"type 3":                         {message2(3, xid, nil, make([]byte, 40)), wire.Err2InvalHtype, 0},
		"type 14":                        {message2(14, xid, nil, nil), wire.Err2InvalHtype, 0},
		"type -1":                        {message2(0xffffffff, xid, nil, nil), wire.Err2InvalHtype, 0},
		"properties twice":               {properties2(xid, wire.Properties{ReceiveSize: 8192}, wire.PropReceiveSize), wire.Err2InvalCont, 0},
		"a header cut short":             {message2(wire.TypeCallInline, xid, []uint32{0, 0, 0}, nil), wire.Err2BadXDR, 0},
		"a word that is neither 0 nor 1": {inline([]uint32{2}, none, none), wire.Err2BadXDR, 0},
		"positions that go backwards":    {inline(readSegments(200, 100), none, none), wire.Err2BadXDR, 0},
		"position zero":                  {inline(readSegments(0), none, none), wire.Err2BadXDR, 0},
		"an odd position":                {inline(readSegments(42), none, none), wire.Err2BadXDR, 0},
		"no Call chunk":                  {message2(wire.TypeCallExternal, xid, []uint32{0, 0, 0, 0, 0}, nil), wire.Err2BadXDR, 0},
		"a Call chunk elsewhere":         {message2(wire.TypeCallExternal, xid, join([]uint32{0}, readSegments(4), []uint32{0, 0, 0}), nil), wire.Err2BadXDR, 0},
		"another XID":                    {message2(wire.TypeCallInline, xid, nil, rpctest.Message(1, rpctest.NULL, nil)), wire.Err2BadXDR, 0},
		"no message":                     {message2(wire.TypeCallInline, xid, nil, nil), wire.Err2BadXDR, 0},
		"a reply as a call":              {message2(wire.TypeCallInline, xid, nil, success(xid)), wire.Err2BadXDR, 0},
		"too many Read chunks":           {inline(readSegments(many...), none, none), wire.Err2ReadChunks, uint32(limits2.ReadChunks)},
		"too many Write chunks":          {inline(none, append(writes, 0), none), wire.Err2WriteChunks, uint32(limits2.WriteChunks)},
		"too many segments":              {inline(none, none, join([]uint32{1}, chunkOf(limits2.ChunkSegments+1))), wire.Err2Segments, uint32(limits2.Segments)},
		"two chunks with too many":       {inline(none, half, half, none, none), wire.Err2Segments, uint32(limits2.Segments / 2)},
		"more chunks than segments":      {inline(readSegments(many[:len(many)-1]...), join([]uint32{1}, chunkOf(1), none), none), wire.Err2System, 0},
		"what may not be reduced":        {message2(wire.TypeCallInline, xid, join([]uint32{0}, readSegments(40), []uint32{0, 0}), rpctest.Message(xid, rpctest.NULL, nil)), wire.Err2BadXDR, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, benchConfig{server: Config{Version2: true, InlineReceive: 16384, InlineSend: 16384}})
			p := b.peer2()
			p.open()
			replies := b.server.Stats().Replies.Load()
			permitted := p.permits - p.sent
			p.send(c.message)
			if e := p.wantError2(xid, wire.Version2, c.code); e.Max != c.max {
				t.Errorf("the error has the limit %d", e.Max)
			}
			if n := p.permits - p.sent; n != permitted {
				t.Errorf("%d messages were permitted before the error, %d with it", permitted, n)
			}
			if n := b.server.Stats().Replies.Load(); n != replies {
				t.Error("the message was served")
			}
			p.alive()
		})
	}
}

// Bad properties are refused as a whole: none of a message's values is applied. An unknown property has no
// effect, a value without bytes stands for the default (V2-45, V2-46, V2-47, V2-84, V2-85, V2-N12). Whatever the
// properties are, another message is permitted in their place once.
func TestPropertiesOfVersion2(t *testing.T) {
	const xid = 0x3333
	message := func(t wire.HeaderType, body ...uint32) []byte { return message2(t, xid, body, nil) }
	for name, c := range map[string]struct {
		body []uint32
		code wire.ErrorCode2
		size int // sendLimit then
	}{
		"a size":             {[]uint32{1, 2, 4, 8192}, 0, 8192},
		"the default":        {[]uint32{1, 2, 0}, 0, 4096},
		"unknown":            {[]uint32{2, 0x7777, 8, 1, 2, 2, 4, 8192}, 0, 8192},
		"twice":              {[]uint32{2, 2, 4, 8192, 2, 4, 16384}, 0, 16384},
		"too short":          {[]uint32{2, 2, 4, 8192, 1, 3, 0}, wire.Err2BadPropval, 4096},
		"beyond the message": {[]uint32{2, 2, 4, 8192, 1, 400, 0}, wire.Err2BadPropval, 4096},
		"too few":            {[]uint32{2, 2, 4, 8192}, wire.Err2BadXDR, 4096},
		"too small":          {[]uint32{1, 2, 4, 1020}, wire.Err2BadPropval, 4096},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, benchConfig{server: Config{Version2: true, InlineSend: 32768}})
			p := b.peer2()
			p.send(message(wire.TypeConnpropFinal, c.body...))
			if q, _ := p.next(); q.Type != wire.TypeConnpropFinal {
				t.Errorf("the server begins with %v", q.Type)
			}
			p.send(call2(1, rpctest.NULL)) // shows that the server may send its error now
			if c.code != 0 {
				p.wantError2(xid, wire.Version2, c.code)
			}
			if q, _ := p.next(); q.Type != wire.TypeReplyInline {
				t.Errorf("NULL is answered by %v", q.Type)
			}
			p.alive()
			k := b.connection()
			wantPromised(t, p.p, spareReceives+int(k.granted.Load()))
			if n := k.sendLimit; n != c.size && !(c.code != 0 && n == 1024) {
				t.Errorf("the server sends up to %d bytes", n)
			}
		})
	}
}

// A message without a whole prefix, an error, a grant and a reply to no call are never answered (V2-66,
// V2-70). They still count: the peer gets their credits back.
func TestUnansweredMessagesOfVersion2(t *testing.T) {
	for name, m := range map[string][]byte{
		"empty":          {},
		"4 bytes":        words(1),
		"15 bytes":       make([]byte, 15),
		"an error":       message2(wire.TypeError, 1, []uint32{57}, nil),
		"a stray error":  message2(wire.TypeError, 1, []uint32{2}, nil),
		"a short error":  message2(wire.TypeError, 1, nil, nil),
		"a grant":        message2(wire.TypeGrant, 0, nil, nil),
		"a longer grant": message2(wire.TypeGrant, 5, []uint32{1, 2, 3}, nil),
		"a stray reply":  message2(wire.TypeReplyInline, 1, nil, success(1)),
		"half a reply":   message2(wire.TypeReplyInline, 1, []uint32{1}, nil),
		"an old error":   binary.BigEndian.AppendUint32(words(1, 1, 1, 4), 2),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, benchConfig{server: Config{Version2: true, Credits: 4}})
			p := b.peer2()
			p.open()
			times := 20
			if q, _ := wire.ParsePrefix2(m); q.Type == wire.TypeGrant {
				times = 3 // a grant is not answered with another one
			}
			for range times {
				p.send(append([]byte(nil), m...))
				for p.permits == p.sent { // all credits are used
					q, got := p.next()
					if q.Type != wire.TypeGrant || q.XID != 0 { // row V2-50
						t.Fatalf("the server answers % x", got)
					}
				}
			}
			p.send(call2(0xa11fe, rpctest.NULL))
			q, got := p.next()
			for q.Type == wire.TypeGrant {
				q, got = p.next()
			}
			if q.XID != 0xa11fe || q.Type != wire.TypeReplyInline {
				t.Fatalf("the server answers % x", got)
			}
			if p.permits != p.sent+4 {
				t.Errorf("%d messages were sent, %d are permitted", p.sent, p.permits)
			}
		})
	}
}

// A client that sends more than it is permitted loses its connection; one message more is tolerated, because
// a grant may be one (V2-9, V2-11). So does a client that takes no replies: it may not go on to call.
func TestBeyondTheLimit(t *testing.T) {
	const lane, credits = 0x2_0001, 4
	stall := func(xid uint32) []byte {
		return message2(wire.TypeCallInline, xid, nil, rpctest.Message(xid, rpctest.STALL, func(w *xdr.Writer) { w.Uint32(lane) }))
	}
	b := newBench(t, benchConfig{server: Config{Version2: true, Credits: credits}})
	p := b.peer2()
	p.open()
	for p.sent < p.permits {
		p.send(stall(100 + p.sent))
	}
	p.send(message2(wire.TypeGrant, 0, nil, nil))
	over := b.peer2()
	over.open()
	for range over.permits + 1 {
		over.send(stall(100 + over.sent))
	}
	wantEnd(t, over.p, "a client beyond its limit keeps its connection")
	silent := b.peer2()
	silent.limit, silent.frozen = 1, true
	silent.open()
	for range credits + 2 {
		if silent.p.Send(call2(5, rpctest.NULL)) != nil {
			break
		}
	}
	wantEnd(t, silent.p, "a client that takes no replies keeps its connection")
	b.program.Release(lane)
	for range credits {
		if q, m := p.next(); q.Type != wire.TypeReplyInline {
			t.Errorf("the server answers % x", m)
		}
	}
	p.alive()
}
