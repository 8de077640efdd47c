package tcp

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/busypoll"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/test/await"
)

// polling is a server whose polls go by a clock that only the test moves. While the clock stands
// still, a poll goes on.
type polling struct {
	*fixture
	clock atomic.Int64
	polls *busypoll.Group
	xid   uint32
}

func startPolling(t *testing.T) *polling {
	p := &polling{}
	p.polls = busypoll.New(busypoll.Config{
		Most:  50 * time.Microsecond,
		Clock: func() time.Duration { return time.Duration(p.clock.Load()) },
		Procs: func() int { return 2 },
	})
	p.fixture = startWith(t, Config{Polls: p.polls}, rpc.Config{LendWithin: time.Hour})
	return p
}

// calls makes calls one at a time, each 10 us after the reply to the one before.
func (p *polling) calls(c net.Conn, n int) {
	p.Helper()
	for range n {
		p.xid++
		if err := bump(c, p.xid); err != nil {
			p.Fatal(err)
		}
		p.clock.Add(int64(10 * time.Microsecond))
	}
}

// polled returns a connection that the server polls for.
func (p *polling) polled() net.Conn {
	p.Helper()
	c := p.raw()
	p.calls(c, 1)
	p.clock.Add(int64(time.Second)) // other connections have had no input for a second
	p.calls(c, 100)
	for before := p.polls.Stats().Hits; p.polls.Stats().Hits == before; { // a poll may have ended before, in order to yield
		p.calls(c, 1)
	}
	return c
}

func TestNextCallIsPolledFor(t *testing.T) {
	p := startPolling(t)
	c := p.polled()
	st := p.polls.Stats()
	if st.Hits < 50 { // some polls end earlier, in order to yield
		t.Errorf("%+v of %d calls", st, p.xid)
	}
	// A poll that lasts too long ends, and the server waits for the next call.
	p.clock.Add(int64(time.Second))
	await.Until(t, "the poll has ended", func() bool { return p.polls.Stats().Misses > st.Misses })
	p.calls(c, 100)
}

// A record that comes in pieces between polls is served like any other.
func TestPiecesBetweenPolls(t *testing.T) {
	p := startPolling(t)
	c := p.polled()
	for i := range uint32(20) {
		m := fragments(rpctest.Message(1000+i, rpctest.BUMP, u32(0)))
		for _, b := range [][]byte{m[:3], m[3:10], m[10:]} {
			if _, err := c.Write(b); err != nil {
				t.Fatal(err)
			}
			p.clock.Add(int64(5 * time.Microsecond))
		}
		if _, err := c.Read(make([]byte, 4+24+8)); err != nil {
			t.Fatal(err)
		}
		p.calls(c, 10)
	}
}

// The server does not poll for the rest of a record.
func TestRecordsAreNotPolledFor(t *testing.T) {
	p := startPolling(t)
	c := p.polled()
	m := fragments(rpctest.Message(1000, rpctest.BUMP, u32(0)))
	before := p.polls.Stats().Polls
	if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(m[:20]); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "half a record ends the poll", func() bool { return p.polls.Stats().Polls > before })
	if _, err := c.Write(m[20:]); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 4+24+8)); err != nil {
		t.Fatal(err)
	}
	if n := p.polls.Stats().Polls - before; n != 1 {
		t.Errorf("%d polls within a record", n-1)
	}
}

// A poll ends when the peer closes the connection.
func TestPeerEndsDuringAPoll(t *testing.T) {
	p := startPolling(t)
	p.polled().Close()
	await.Until(t, "the connection has ended", func() bool { return p.Stats().Connections == 0 })
}

// Shutdown and Close end a poll whose time has not run out.
func TestServerEndsDuringAPoll(t *testing.T) {
	t.Run("Close", func(t *testing.T) {
		p := startPolling(t)
		p.polled()
		p.Close()
	})
	t.Run("Shutdown", func(t *testing.T) {
		p := startPolling(t)
		c := p.polled()
		done := make(chan error, 1)
		go func() { done <- p.Shutdown(context.Background()) }()
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("more than the end")
		}
		c.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// The rules of rpctest.Suite hold if the server polls after each call that comes alone.
func TestSuitePolling(t *testing.T) {
	var clock atomic.Int64
	f := start(t, Config{Polls: busypoll.New(busypoll.Config{
		Most:  time.Millisecond,
		Clock: func() time.Duration { return time.Duration(clock.Add(int64(100 * time.Nanosecond))) },
		Procs: func() int { return 2 },
	})})
	rpctest.Suite(t, f.rpc, f.program, func(t *testing.T) rpc.Caller { return f.dial(DialConfig{}) })
}
