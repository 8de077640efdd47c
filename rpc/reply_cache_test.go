package rpc_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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

// A repeated call is answered from the cache: on the same connection or, if that has ended, on
// another one, which may have another port and other chunks. A message that differs in any field
// that identifies a call is a new call.
func TestRetransmission(t *testing.T) {
	s, p, conn := newServer(t, rpc.Config{})
	m := rpctest.Message(1, rpctest.BUMP, bump("tag"))
	if n := counter(t, rpctest.NewCall(conn, m).Run(s)); n != 1 {
		t.Fatal(n)
	}
	again := func(name string, conn *rpc.Conn, m []byte, replay bool) {
		t.Run(name, func(t *testing.T) {
			defer conn.Close()
			before := p.Served[rpctest.BUMP].Load()
			n := counter(t, rpctest.NewCall(conn, m).Run(s))
			executed := p.Served[rpctest.BUMP].Load() - before
			if replay && (executed != 0 || n != 1) || !replay && executed != 1 {
				t.Fatalf("executed %d times, result %d", executed, n)
			}
		})
	}
	from := func(addr string) *rpc.Conn { return s.NewConn(netip.MustParseAddrPort(addr), local, "rdma", true) }
	as := func(uid, gid uint32, groups ...uint32) []byte {
		a, err := rpc.AuthSysCred(9, "box", uid, gid, groups)
		if err != nil {
			t.Fatal(err)
		}
		return rpctest.CallMessage(rpc.CallHeader{XID: 1, Program: rpctest.Number, Version: 1,
			Procedure: rpctest.BUMP, Cred: a}, bump("tag"))
	}
	version3 := rpctest.CallMessage(rpc.CallHeader{XID: 1, Program: rpctest.Number, Version: 3, Procedure: rpctest.BUMP}, bump("tag"))
	again("same connection", conn, m, true)
	again("new connection", s.NewConn(peer, local, "tcp", true), m, true)
	again("other port and transport", from("192.0.2.7:901"), m, true)
	again("address mapped to IPv6", from("[::ffff:192.0.2.7]:901"), m, true)
	again("other client", from("192.0.2.8:700"), m, false)
	conn = s.NewConn(peer, local, "tcp", true)
	again("other XID", conn, rpctest.Message(2, rpctest.BUMP, bump("tag")), false)
	again("other arguments", conn, rpctest.Message(1, rpctest.BUMP, bump("gat")), false)
	again("other version", conn, version3, false)
	again("other caller", conn, as(1000, 0), false)
	again("yet another caller", conn, as(1001, 0), false)
	again("other primary group", conn, as(1000, 7), false)
	again("other group", conn, as(1000, 0, 5), false)
	again("other groups", conn, as(1000, 0, 5, 6), false)
	again("other flavor, of the same ids", conn, as(0, 0), false) // AUTH_NONE has 0 and 0
	m = as(0, 0)
	copy(m[bytes.Index(m, []byte("box")):], "fox")
	again("other machine", conn, m, false)
	st := s.Stats().ReplyCache
	if st.Hits != 4 || st.Misses != 12 || st.Entries != 12 {
		t.Errorf("%+v", st)
	}
	// Another procedure with the same arguments is a new call.
	for _, procedure := range []uint32{rpctest.WIDE, rpctest.FETCH} {
		if _, err := rpctest.NewCall(conn, rpctest.Message(50, procedure, u32(8))).Run(s).Results(); err != nil {
			t.Fatal(err)
		}
		if n := p.Served[procedure].Load(); n != 1 {
			t.Errorf("procedure %d was executed %d times", procedure, n)
		}
	}
}

// put makes a PUT or a STORE whose data travels outside the message, in a Read chunk.
func put(t *testing.T, s *rpc.Server, conn *rpc.Conn, proc uint32, head func(w *xdr.Writer), data []byte) *rpctest.Call {
	t.Helper()
	m := rpctest.Message(1, proc, func(w *xdr.Writer) {
		head(w)
		w.Uint32(uint32(len(data)))
	})
	c := rpctest.NewCall(conn, m)
	c.Placed = []rpc.Placed{{Position: uint32(len(m)), Length: uint32(len(data))}}
	if _, ok := s.Admit(&c.Call); !ok {
		t.Fatal("not admitted")
	}
	c.Excised = []xdr.Excised{{Position: uint32(len(m)), Data: data}}
	s.Serve(&c.Call)
	return c
}

// A call that differs from an earlier one only in its payload, or at the end of long arguments, is
// a new call, and does not get the cached answer.
func TestPayloadTellsCallsApart(t *testing.T) {
	s, p, conn := newServer(t, rpc.Config{})
	name := func(w *xdr.Writer) { w.String("file") }
	var sums []uint32
	for _, fill := range []byte{1, 1, 2} {
		c := put(t, s, conn, rpctest.PUT, name, bytes.Repeat([]byte{fill}, 5000))
		ended(t, c.Done)
		d, err := c.Results()
		if err != nil {
			t.Fatal(err)
		}
		d.Uint32()
		sums = append(sums, d.Uint32())
	}
	if n := p.Served[rpctest.PUT].Load(); n != 2 || sums[0] != sums[1] || sums[1] == sums[2] {
		t.Errorf("executed %d times, checksums %x", n, sums)
	}
	long := func(end string) []byte {
		return rpctest.Message(2, rpctest.BUMP, bump(strings.Repeat("x", 60)+end))
	}
	one, two := rpctest.NewCall(conn, long("1")).Run(s), rpctest.NewCall(conn, long("2")).Run(s)
	if counter(t, one) == counter(t, two) {
		t.Error("calls that differ in their last byte are one")
	}
}

// Duplicates of a running call are not executed, but each of them is answered, because the client
// may wait on any live connection.
func TestDuplicatesOfARunningCallAreAnswered(t *testing.T) {
	s, p, conn := newServer(t, rpc.Config{})
	store := func(conn *rpc.Conn) *rpctest.Call {
		return put(t, s, conn, rpctest.STORE, u32(7), make([]byte, 100))
	}
	all := []*rpctest.Call{store(conn)}
	ended(t, p.Arrived(7))
	all = append(all, store(conn), store(conn), store(s.NewConn(peer, local, "rdma", true)))
	for _, c := range all[1:] {
		if !c.Detached {
			t.Error("a call that waits still borrows its memory")
		}
		select {
		case <-c.Done:
			t.Error("a duplicate ended although its call is running")
		default:
		}
	}
	p.Release(7)
	all = append(all, store(conn))
	for i, c := range all {
		ended(t, c.Done)
		d, err := c.Results()
		if err != nil {
			t.Fatal(i, err)
		}
		if length, nth := d.Uint32(), d.Uint32(); length != 100 || nth != 1 {
			t.Errorf("call %d got STORE number %d, of %d bytes", i, nth, length)
		}
	}
	if n := p.Served[rpctest.STORE].Load(); n != 1 {
		t.Errorf("executed %d times", n)
	}
	// Drain first, because InProgress falls only after the end of a call.
	if err := s.Drain(context.Background()); err != nil || s.Stats().InProgress != 0 || s.Stats().ReplyCache.Joined < 3 {
		t.Errorf("%v, %+v", err, s.Stats())
	}
}

// The cache stores replies for 15 minutes. If memory is short, a client with many replies first
// loses its own.
func TestReplyCacheIsSharedByClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, conn := newServer(t, rpc.Config{ReplyCacheBytes: 64 << 10})
		defer s.Close()
		other := s.NewConn(netip.MustParseAddrPort("192.0.2.99:700"), local, "tcp", true)
		do := func(conn *rpc.Conn, xid uint32) uint64 {
			return counter(t, rpctest.NewCall(conn, rpctest.Message(xid, rpctest.BUMP, bump(""))).Run(s))
		}
		first := do(conn, 1)
		for xid := range uint32(10_000) {
			do(other, xid)
		}
		if do(conn, 1) != first {
			t.Error("another client's calls pushed a reply out")
		}
		// The first client's reply stays in the cache also when that client makes another call,
		// because the client with the most replies loses one first.
		second := do(conn, 2)
		if do(conn, 1) != first || do(conn, 2) != second {
			t.Error("a client that holds little lost a reply to one that holds much")
		}
		st := s.Stats().ReplyCache
		if st.Surplus == 0 || st.Young > 0 || st.Bytes > 64<<10 {
			t.Errorf("%+v", st)
		}
		many := st.Entries
		time.Sleep(rpc.ReplyLife + time.Second)
		if do(conn, 1) == first {
			t.Error("a reply was remembered for longer than ReplyLife")
		}
		if st := s.Stats().ReplyCache; st.Expired == 0 {
			t.Errorf("%+v", st)
		}
		// Replies that are too old are deleted at a later call of any client.
		do(other, 20_000)
		if st := s.Stats().ReplyCache; st.Entries > 4 {
			t.Errorf("%d entries of %d are left, all but two of them too old", st.Entries, many)
		}
	})
}

// The cache stores the positions of payloads in the results. So the reply to a duplicate has its
// payloads in the chunks that the duplicate offers.
func TestReplayKeepsPayloadMarks(t *testing.T) {
	s, p, conn := newServer(t, rpc.Config{})
	m := rpctest.Message(1, rpctest.FETCH, u32(1001))
	var first *rpctest.Call
	for range 3 {
		c := rpctest.NewCall(conn, m)
		c.Space, c.Places = rpc.Room{Inline: 1024}, []int{4096}
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

// If many replies expire at once, no call has to wait until all of them are deleted.
func TestReplySweepIsShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const sweep = 256
		s, _, conn := newServer(t, rpc.Config{})
		defer s.Close()
		m := rpctest.Message(0, rpctest.BUMP, bump(""))
		c := rpctest.NewCall(conn, m)
		next := uint32(0)
		do := func(conn *rpc.Conn) {
			binary.BigEndian.PutUint32(m, next)
			next++
			c.Again(conn, m)
			c.Run(s)
		}
		for range 20 {
			gone := s.NewConn(netip.MustParseAddrPort("192.0.2.99:700"), local, "tcp", true)
			for range 100 {
				do(gone)
			}
			gone.Close()
		}
		time.Sleep(rpc.ReplyLife + time.Second)
		for calls, before := 0, uint64(0); before < 2000; calls++ {
			do(conn)
			n := s.Stats().ReplyCache.Expired
			if n-before > sweep || calls > 2000 {
				t.Fatalf("after %d calls %d replies are forgotten, %d by the last one", calls, n, n-before)
			}
			before = n
		}
	})
}

// While a reply to a duplicate is being sent, its memory is not reused, even if the cache deletes
// the entry meanwhile.
func TestReplayOutlivesItsEntry(t *testing.T) {
	s, p, conn := newServer(t, rpc.Config{ReplyCacheBytes: 8 << 10})
	m := rpctest.Message(1, rpctest.FETCH, u32(500))
	rpctest.NewCall(conn, m).Run(s)
	replay := rpctest.NewCall(conn, m).Run(s)
	if n := p.Served[rpctest.FETCH].Load(); n != 1 {
		t.Fatalf("executed %d times: nothing is replayed", n)
	}
	for xid := range uint32(30) {
		if _, err := rpctest.NewCall(conn, rpctest.Message(100+xid, rpctest.WIDE, u32(400))).Run(s).Results(); err != nil {
			t.Fatal(err)
		}
	}
	if s.Stats().ReplyCache.Young == 0 {
		t.Fatal("nothing was forgotten")
	}
	if len(replay.Lent) != 1 || !bytes.Equal(replay.Lent[0], rpctest.Pattern(make([]byte, 500))) {
		t.Error("the replay's payload was written over")
	}
}

// The memory of the cache is bounded. The reply that was not used for the longest time is deleted
// first. The entry of a running call is not deleted.
func TestReplyCacheBounds(t *testing.T) {
	// For the bound, a connection counts as 512 bytes, a reply as 320, and the result of a BUMP as
	// 8.
	s, p, conn := newServer(t, rpc.Config{ReplyCacheBytes: 512 + 3*328 + 100})
	held := rpctest.Message(100, rpctest.HOLD, u32(1))
	running := rpctest.NewCall(conn, held).Go(s)
	ended(t, p.Arrived(1))
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
	ended(t, running.Done)
	ended(t, dup.Done)
	if n := p.Served[rpctest.HOLD].Load(); n != 1 {
		t.Errorf("a running call was forgotten: executed %d times", n)
	}
}

func TestReplyCacheBoundedByBytes(t *testing.T) {
	const bound = 256 << 10
	s, _, conn := newServer(t, rpc.Config{ReplyCacheBytes: bound})
	for xid := range uint32(40) {
		rpctest.NewCall(conn, rpctest.Message(xid, rpctest.WIDE, u32(50<<10))).Run(s)
		if st := s.Stats().ReplyCache; st.Bytes > bound || st.Entries == 0 {
			t.Fatalf("%+v", st)
		}
	}
	// A reply that is too large for the cache is sent, but not stored.
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

// A short reply may use the memory of a longer reply that was deleted. It counts with all of that
// memory, so that the cache's bound holds for any order of replies.
func TestReplyCountsWithItsMemory(t *testing.T) {
	s, _, conn := newServer(t, rpc.Config{ReplyCacheBytes: 64 << 10})
	for xid := range uint32(2000) {
		length := uint32(8)
		if xid%10 == 0 {
			length = 1200
		}
		if _, err := rpctest.NewCall(conn, rpctest.Message(xid, rpctest.WIDE, u32(length))).Run(s).Results(); err != nil {
			t.Fatal(err)
		}
		if err := s.CheckReplies(); err != nil {
			t.Fatal(xid, err)
		}
	}
}

// If the stored reply does not fit into the space that a duplicate offers, the duplicate is
// refused, and the reply stays in the cache for a duplicate with enough space.
func TestReplayWithoutRoom(t *testing.T) {
	s, _, conn := newServer(t, rpc.Config{})
	m := rpctest.Message(1, rpctest.HOLD, u32(2))
	s2 := rpctest.NewCall(conn, m)
	s2.Space = rpc.Room{Inline: 30}
	if s2.Run(s); s2.End != rpctest.Refused || s2.Why != rpc.RefuseRoom {
		t.Errorf("ended with %v", s2.End)
	}
}

// Of many concurrent duplicates, one is executed, and all get its result.
func TestDuplicatesRace(t *testing.T) {
	s, p, _ := newServer(t, rpc.Config{})
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
			ended(t, p.Arrived(1000+xid))
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
