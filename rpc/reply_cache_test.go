package rpc_test

import (
	"bytes"
	"net/netip"
	"sync"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

func bump(tag string) func(w *xdr.Writer) { return func(w *xdr.Writer) { w.String(tag) } }

func counter(t *testing.T, c *rpctest.Call) uint64 {
	t.Helper()
	d, err := c.Results()
	if err != nil {
		t.Fatal(err)
	}
	return d.Uint64()
}

// A retransmission is answered from the cache: on the same connection, on another
// one, from another port, with other chunks. What differs in what makes a call is
// another call.
func TestRetransmission(t *testing.T) {
	s, p, conn := newServer(t, rpc.Config{})
	m := rpctest.Message(1, rpctest.BUMP, bump("tag"))
	if n := counter(t, rpctest.NewCall(conn, m).Run(s)); n != 1 {
		t.Fatal(n)
	}
	again := func(name string, conn *rpc.Conn, m []byte, replay bool) {
		t.Run(name, func(t *testing.T) {
			before := p.Served[rpctest.BUMP].Load()
			n := counter(t, rpctest.NewCall(conn, m).Run(s))
			executed := p.Served[rpctest.BUMP].Load() - before
			if replay && (executed != 0 || n != 1) || !replay && executed != 1 {
				t.Fatalf("executed %d times, result %d", executed, n)
			}
		})
	}
	from := func(addr string) *rpc.Conn { return s.NewConn(netip.MustParseAddrPort(addr), local, "rdma", true) }
	cred := func(uid uint32) []byte {
		a, err := rpc.AuthSysCred(9, "box", uid, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		return rpctest.CallMessage(rpc.CallHeader{XID: 1, Program: rpctest.Number, Version: 1,
			Procedure: rpctest.BUMP, Cred: a}, bump("tag"))
	}
	version3 := rpctest.CallMessage(rpc.CallHeader{XID: 1, Program: rpctest.Number, Version: 3, Procedure: rpctest.BUMP}, bump("tag"))
	conn.Close()
	again("same connection", conn, m, true)
	again("new connection", s.NewConn(peer, local, "tcp", true), m, true)
	again("other port and transport", from("192.0.2.7:901"), m, true)
	again("address mapped to IPv6", from("[::ffff:192.0.2.7]:901"), m, true)
	again("other client", from("192.0.2.8:700"), m, false)
	again("other XID", conn, rpctest.Message(2, rpctest.BUMP, bump("tag")), false)
	again("other arguments", conn, rpctest.Message(1, rpctest.BUMP, bump("gat")), false)
	again("other version", conn, version3, false)
	again("other caller", conn, cred(1000), false)
	again("yet another caller", conn, cred(1001), false)
	st := s.Stats().ReplyCache
	if st.Hits != 4 || st.Misses != 7 || st.Entries != 7 {
		t.Errorf("%+v", st)
	}
}

// Payload does not tell calls apart, only what comes before it: a retransmission
// is known before its payload is looked at.
func TestChecksumEndsBeforePayload(t *testing.T) {
	s, p, conn := newServer(t, rpc.Config{})
	m, at := putMessage(1, "file", 5000)
	var first []byte
	for i := range 2 {
		call := rpctest.NewCall(conn, m)
		call.Placed = []rpc.Placed{{at, 5000}}
		if _, ok := s.Admit(&call.Call); !ok {
			t.Fatal("not admitted")
		}
		call.Excised = []xdr.Excised{{Position: at, Data: bytes.Repeat([]byte{byte(i)}, 5000)}}
		s.Serve(&call.Call)
		if _, err := call.Results(); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = append(first, call.Reply...)
		} else if !bytes.Equal(first, call.Reply) {
			t.Error("the replay differs")
		}
	}
	if n := p.Served[rpctest.PUT].Load(); n != 1 {
		t.Errorf("executed %d times", n)
	}
}

// What is kept is the result body with its marks: a replay puts payload into the
// places that the duplicate offers for it.
func TestReplayKeepsPayloadMarks(t *testing.T) {
	s, p, conn := newServer(t, rpc.Config{})
	m := rpctest.Message(1, rpctest.FETCH, u32(1001))
	var first *rpctest.Call
	for range 3 {
		c := rpctest.NewCall(conn, m)
		c.Space = rpc.Room{Inline: 1024, WriteChunks: 1, WriteBytes: 4096}
		c.Run(s)
		d, err := c.Results()
		if err != nil {
			t.Fatal(err)
		}
		if b := d.EligibleOpaque(2000); !bytes.Equal(b, rpctest.Pattern(make([]byte, 1001))) || d.Uint32() != 1001 || d.Finish() != nil {
			t.Fatal("other results")
		}
		if len(c.Payloads) != 1 || !c.Payloads[0].Eligible || c.Payloads[0].Position != rpc.ReplyHeader+4 || len(c.Words) != rpc.ReplyHeader+8 {
			t.Fatalf("payloads %+v, %d bytes of words", c.Payloads, len(c.Words))
		}
		if first == nil {
			first = c
		} else if !bytes.Equal(first.Reply, c.Reply) {
			t.Error("the replay differs")
		}
	}
	if n := p.Served[rpctest.FETCH].Load(); n != 1 {
		t.Errorf("executed %d times", n)
	}
}

// What a replay is still being sent from is not used for other results, though
// the cache forgets it meanwhile.
func TestReplayOutlivesItsEntry(t *testing.T) {
	s, _, conn := newServer(t, rpc.Config{ReplyCacheEntries: 2})
	m := rpctest.Message(1, rpctest.FETCH, u32(500))
	rpctest.NewCall(conn, m).Run(s)
	replay := rpctest.NewCall(conn, m).Run(s)
	for xid := range uint32(10) {
		if _, err := rpctest.NewCall(conn, rpctest.Message(100+xid, rpctest.WIDE, u32(400))).Run(s).Results(); err != nil {
			t.Fatal(err)
		}
	}
	if s.Stats().ReplyCache.Evicted == 0 {
		t.Fatal("nothing was forgotten")
	}
	if len(replay.Lent) != 1 || !bytes.Equal(replay.Lent[0], rpctest.Pattern(make([]byte, 500))) {
		t.Error("the replay's payload was written over")
	}
}

// A duplicate of a running call takes over its way of reply; of several, the
// latest does.
func TestDuplicateOfRunningCall(t *testing.T) {
	s, p, conn := newServer(t, rpc.Config{})
	m := rpctest.Message(1, rpctest.HOLD, u32(4))
	first := rpctest.NewCall(conn, m).Go(s)
	<-p.Arrived(4)
	second := rpctest.NewCall(conn, m).Go(s)
	if !second.Detached {
		t.Error("a call that waits still borrows its memory")
	}
	third := rpctest.NewCall(s.NewConn(peer, local, "rdma", true), append([]byte(nil), m...)).Go(s)
	<-second.Done
	if second.End != rpctest.Dropped {
		t.Errorf("the second ended with %v", second.End)
	}
	select {
	case <-first.Done:
		t.Fatal("the first ended although it is running")
	case <-third.Done:
		t.Fatal("the third ended although the call is running")
	default:
	}
	p.Release(4)
	<-first.Done
	<-third.Done
	if first.End != rpctest.Dropped || counter(t, third) != 1 {
		t.Errorf("first ended with %v", first.End)
	}
	if n := counter(t, rpctest.NewCall(conn, m).Run(s)); n != 1 {
		t.Errorf("a later duplicate got %d", n)
	}
	if n := p.Served[rpctest.HOLD].Load(); n != 1 {
		t.Errorf("executed %d times", n)
	}
	st := s.Stats()
	if st.ReplyCache.Joined != 2 || st.InProgress != 0 {
		t.Errorf("%+v", st)
	}
}

// The cache is bounded by entries and bytes; the oldest goes first, what was asked
// for lately stays, and a running call is never forgotten.
func TestReplyCacheBounds(t *testing.T) {
	s, p, conn := newServer(t, rpc.Config{ReplyCacheEntries: 4})
	held := rpctest.Message(100, rpctest.HOLD, u32(1))
	running := rpctest.NewCall(conn, held).Go(s)
	<-p.Arrived(1)
	do := func(xid uint32) uint64 {
		return counter(t, rpctest.NewCall(conn, rpctest.Message(xid, rpctest.BUMP, bump(""))).Run(s))
	}
	one, two := do(1), do(2)
	do(3)
	if do(1) != one {
		t.Error("1 is not in the cache")
	}
	do(4) // drops 2, the oldest
	if do(1) != one {
		t.Error("1 was dropped although it was used last")
	}
	if do(2) == two {
		t.Error("2 is still in the cache")
	}
	for xid := range uint32(50) {
		do(1000 + xid)
	}
	if n := s.Stats().ReplyCache.Entries; n != 4 {
		t.Errorf("%d entries", n)
	}
	dup := rpctest.NewCall(conn, held).Go(s)
	p.Release(1)
	<-running.Done
	<-dup.Done
	if n := p.Served[rpctest.HOLD].Load(); n != 1 {
		t.Errorf("a running call was forgotten: executed %d times", n)
	}
}

func TestReplyCacheBoundedByBytes(t *testing.T) {
	const bound = 256 << 10
	s, _, conn := newServer(t, rpc.Config{ReplyCacheEntries: 8, ReplyCacheBytes: bound})
	for xid := range uint32(40) {
		rpctest.NewCall(conn, rpctest.Message(xid, rpctest.WIDE, u32(50<<10))).Run(s)
		if st := s.Stats().ReplyCache; st.Bytes > bound || st.Entries == 0 {
			t.Fatalf("%+v", st)
		}
	}
	// One that is too large for the cache is answered, and not kept.
	s, p, conn := newServer(t, rpc.Config{ReplyCacheBytes: 1 << 10})
	for range 2 {
		if _, err := rpctest.NewCall(conn, rpctest.Message(1, rpctest.WIDE, u32(2<<10))).Run(s).Results(); err != nil {
			t.Fatal(err)
		}
	}
	if st := s.Stats().ReplyCache; st.Oversize != 2 || st.Bytes != 0 || p.Served[rpctest.WIDE].Load() != 2 {
		t.Errorf("%+v", st)
	}
}

// A replay that the duplicate's room does not carry is refused, and the result
// stays for one that has room.
func TestReplayWithoutRoom(t *testing.T) {
	s, _, conn := newServer(t, rpc.Config{})
	m := rpctest.Message(1, rpctest.HOLD, u32(2))
	s2 := rpctest.NewCall(conn, m)
	s2.Space = rpc.Room{Inline: 30}
	if s2.Run(s); s2.End != rpctest.Refused || s2.Why != rpc.RefuseRoom {
		t.Errorf("ended with %v", s2.End)
	}
}

// Many duplicates at once, on many goroutines: one is executed, the others are
// answered with its result or dropped for a later one.
func TestDuplicatesRace(t *testing.T) {
	s, p, _ := newServer(t, rpc.Config{ReplyCacheEntries: 1 << 10})
	for xid := range uint32(200) {
		proc, args := uint32(rpctest.BUMP), bump("x")
		if xid%2 == 1 {
			proc, args = rpctest.HOLD, u32(1000+xid)
		}
		m := rpctest.Message(xid, proc, args)
		before := p.Served[proc].Load()
		var wg sync.WaitGroup
		var mu sync.Mutex
		answers := map[string]int{}
		for range 8 {
			wg.Go(func() {
				c := rpctest.NewCall(s.NewConn(peer, local, "tcp", true), m)
				c.Run(s)
				mu.Lock()
				defer mu.Unlock()
				if c.End == rpctest.Sent {
					answers[string(c.Reply)]++
				}
			})
		}
		if proc == rpctest.HOLD {
			<-p.Arrived(1000 + xid)
			p.Release(1000 + xid)
		}
		wg.Wait()
		if n := p.Served[proc].Load() - before; n != 1 || len(answers) != 1 {
			t.Fatalf("executed %d times, %d different answers", n, len(answers))
		}
	}
	if st := s.Stats(); st.InProgress != 0 {
		t.Errorf("%d calls in progress", st.InProgress)
	}
}
