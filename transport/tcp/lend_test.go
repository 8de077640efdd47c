package tcp

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
)

// steady is a peer that makes one call at a time.
type steady struct {
	*fixture
	net.Conn
	xid, lane uint32
}

// startLending starts a server that runs calls on the receiving goroutine even if the machine is
// slow and the calls follow each other slowly.
func startLending(t *testing.T) *fixture {
	return startWith(t, Config{}, rpc.Config{LendWithin: time.Hour})
}

func (f *fixture) steady() *steady { return &steady{fixture: f, Conn: f.raw(), lane: 1000} }

func (p *steady) send(proc uint32, args ...uint32) {
	p.Helper()
	p.SetDeadline(time.Now().Add(30 * time.Second))
	p.xid++
	if _, err := p.Write(fragments(rpctest.Message(p.xid, proc, u32(args...)))); err != nil {
		p.Fatal(err)
	}
}

// reply reads one reply with results of this length, and returns its XID.
func (p *steady) reply(results int) (xid uint32) {
	p.Helper()
	b := make([]byte, markSize+24+results)
	if _, err := io.ReadFull(p.Conn, b); err != nil {
		p.Fatal(err)
	}
	return uint32(b[4])<<24 | uint32(b[5])<<16 | uint32(b[6])<<8 | uint32(b[7])
}

// lent makes calls that end at once, until one has run on the goroutine that received it.
func (p *steady) lent() {
	p.Helper()
	p.lane++
	p.program.Release(p.lane)
	before := p.rpc.Stats().Lent
	await.Until(p, "a call runs on the receiving goroutine", func() bool {
		for range 10 {
			p.send(rpctest.STALL, p.lane)
			p.reply(4)
		}
		return p.rpc.Stats().Lent > before
	})
}

// stalled makes a call stall on the goroutine that received it, and returns its lane.
func (p *steady) stalled() (lane uint32) {
	p.Helper()
	for {
		p.lent()
		before := p.rpc.Stats().Lent
		p.lane++
		lane := p.lane
		p.send(rpctest.STALL, lane)
		ended(p, p.program.Arrived(lane))
		if p.rpc.Stats().Lent > before {
			return lane
		}
		// The machine was busy, so the call came too late to run on the receiving goroutine.
		p.program.Release(lane)
		p.reply(4)
	}
}

// If a call stalls on the goroutine that received it, other calls of the connection are served
// meanwhile, and each is answered when it ends.
func TestStalledCallOnTheReceivingGoroutine(t *testing.T) {
	f := startLending(t)
	p := f.steady()
	for range 3 {
		lane := p.stalled()
		first := p.xid
		p.send(rpctest.BUMP, 0)
		if xid := p.reply(8); xid != p.xid {
			t.Fatalf("reply to %d, not to %d", xid, p.xid)
		}
		// A second call that stalls does not delay the connection, either.
		p.send(rpctest.STALL, lane+10_000)
		ended(t, f.program.Arrived(lane+10_000))
		f.program.Release(lane)
		if xid := p.reply(4); xid != first {
			t.Fatalf("reply to %d, not to %d", xid, first)
		}
		f.program.Release(lane + 10_000)
		if xid := p.reply(4); xid != p.xid {
			t.Fatalf("reply to %d, not to %d", xid, p.xid)
		}
	}
	if st := f.rpc.Stats(); st.Replaced < 3 {
		t.Errorf("%+v", st)
	}
}

// Several calls of a peer that are under way run concurrently.
func TestCallsUnderWayAreConcurrent(t *testing.T) {
	f := startLending(t)
	p := f.steady()
	p.lent()
	for i := range uint32(50) {
		lane := 5000 + 2*i
		p.send(rpctest.STALL, lane)
		p.send(rpctest.STALL, lane+1)
		ended(t, f.program.Arrived(lane))
		ended(t, f.program.Arrived(lane+1))
		f.program.Release(lane)
		f.program.Release(lane + 1)
		p.reply(4)
		p.reply(4)
	}
}

// While a call runs on the receiving goroutine, the peer may close, half-close or reset the
// connection, and the server may end.
func TestEndDuringACallOnTheReceivingGoroutine(t *testing.T) {
	t.Run("the peer closes", func(t *testing.T) {
		f := startLending(t)
		p := f.steady()
		lane := p.stalled()
		p.Close()
		f.program.Release(lane)
		await.Until(t, "the connection has ended", func() bool { return f.Stats().Connections == 0 })
	})
	t.Run("the peer closes its side", func(t *testing.T) {
		f := startLending(t)
		p := f.steady()
		lane := p.stalled()
		p.Conn.(*net.TCPConn).CloseWrite()
		f.program.Release(lane)
		if xid := p.reply(4); xid != p.xid {
			t.Errorf("reply to %d, not to %d", xid, p.xid)
		}
		await.Until(t, "the connection has ended", func() bool { return f.Stats().Connections == 0 })
	})
	t.Run("the peer resets", func(t *testing.T) {
		f := startLending(t)
		p := f.steady()
		lane := p.stalled()
		p.Conn.(*net.TCPConn).SetLinger(0)
		p.Close()
		await.Until(t, "the connection has ended", func() bool { return f.Stats().Connections == 0 })
		f.program.Release(lane)
	})
	t.Run("Close", func(t *testing.T) {
		f := startLending(t)
		p := f.steady()
		lane := p.stalled()
		f.Close() // does not wait for the call
		f.program.Release(lane)
	})
	t.Run("Shutdown", func(t *testing.T) {
		f := startLending(t)
		p := f.steady()
		lane := p.stalled()
		done := make(chan error, 1)
		go func() { done <- f.Shutdown(context.Background()) }()
		select {
		case err := <-done:
			t.Fatalf("Shutdown did not wait for the call: %v", err)
		default:
		}
		f.program.Release(lane)
		if xid := p.reply(4); xid != p.xid {
			t.Errorf("reply to %d, not to %d", xid, p.xid)
		}
		p.Close()
		if err := ended(t, done); err != nil {
			t.Error(err)
		}
	})
}

// If many connections have calls that stall on the receiving goroutine, each connection has one
// goroutine in addition to those of its calls. Nothing is left over at the end.
func TestLateCallsOfManyConnections(t *testing.T) {
	f := startWith(t, Config{}, rpc.Config{IdleWorker: time.Millisecond, LendWithin: time.Hour})
	var lanes []uint32
	for i := range uint32(20) {
		p := f.steady()
		p.lane = 100_000 * (i + 1)
		lanes = append(lanes, p.stalled())
		p.send(rpctest.BUMP, 0)
		p.reply(8)
	}
	if st := f.rpc.Stats(); st.Running != len(lanes) || st.Replaced < uint64(len(lanes)) {
		t.Errorf("%+v", st)
	}
	for _, lane := range lanes {
		f.program.Release(lane)
	}
	await.Until(t, "no call runs", func() bool {
		st := f.rpc.Stats()
		return st.Running == 0 && st.Workers == 0 && st.InProgress == 0
	})
}

// A call in a large record, whose message is not in the ring, also runs on the receiving goroutine.
func TestLargeCallOnTheReceivingGoroutine(t *testing.T) {
	f := startLending(t)
	p := f.steady()
	f.program.Release(77)
	data := make([]byte, 20<<10)
	await.Until(t, "a large call runs on the receiving goroutine", func() bool {
		p.lent()
		before := f.rpc.Stats().Lent
		p.xid++
		m := rpctest.Message(p.xid, rpctest.STORE, func(w *xdr.Writer) {
			w.Uint32(77)
			w.Opaque(data)
		})
		if _, err := p.Write(fragments(m)); err != nil {
			t.Fatal(err)
		}
		p.reply(8)
		return f.rpc.Stats().Lent > before
	})
}

// The server polls for the next call of a peer whose calls run on the receiving goroutine, and
// finds it whether that goroutine polls, waits, or yields after a call.
func TestCallsOnTheReceivingGoroutineArePolledFor(t *testing.T) {
	f := startPolling(t)
	p := &steady{fixture: f.fixture, Conn: f.polled(), lane: 1, xid: f.xid}
	f.program.Release(1)
	hits, lent := f.polls.Stats().Hits, f.rpc.Stats().Lent
	await.Until(t, "calls run on the receiving goroutine, and are polled for", func() bool {
		for range 30 {
			p.send(rpctest.STALL, 1)
			p.reply(4)
			f.clock.Add(int64(10 * time.Microsecond))
		}
		return f.rpc.Stats().Lent > lent+20 && f.polls.Stats().Hits > hits+20
	})
	// A call comes while another one runs. The runtime does not report it when the goroutine
	// waits again, but the goroutine finds it, even if it would yield.
	for lane := uint32(2); lane < 10; lane++ {
		for range 20 {
			p.send(rpctest.STALL, 1)
			p.reply(4)
			f.clock.Add(int64(10 * time.Microsecond))
		}
		p.send(rpctest.STALL, lane)
		ended(t, f.program.Arrived(lane))
		p.send(rpctest.BUMP, 0)
		f.clock.Add(int64(200 * time.Microsecond))
		f.program.Release(lane)
		p.reply(0)
		if _, err := io.ReadFull(p.Conn, make([]byte, 4+8+markSize+24)); err != nil {
			t.Fatal(err)
		}
	}
}

// If a peer's next call is there already when its last call ends, several times in a row, the
// server leaves the peer's calls to the executor, for longer each time.
func TestDoubtOfOneCallAtATime(t *testing.T) {
	var l lending
	for i := range mistakes - 1 {
		if l.mistaken(); l.alone != 0 {
			t.Errorf("doubted after %d times", i+1)
		}
	}
	for i, want := range []int{8, 16, 32, 64, 128, 256, 512, 512} {
		if l.mistaken(); l.alone != -want {
			t.Errorf("after %d times more: %d calls, not %d", i+1, -l.alone, want)
		}
	}
	for range 3 {
		l.right()
	}
	l.alone = 0
	for range mistakes {
		l.mistaken()
	}
	if l.alone != -128 {
		t.Errorf("after it was right three times: %d calls", -l.alone)
	}
}
