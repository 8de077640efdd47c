package tcp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
)

// pair returns a caller and the raw other end of its connection.
func pair(t *testing.T, cfg DialConfig) (*Conn, *net.TCPConn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := Dial(context.Background(), l.Addr().String(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	peer, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { peer.Close() })
	return c, peer.(*net.TCPConn)
}

// read reads one record of one fragment.
func read(t *testing.T, c io.Reader) []byte {
	t.Helper()
	b := make([]byte, markSize)
	if _, err := io.ReadFull(c, b); err != nil {
		t.Fatal(err)
	}
	n, last := mark(b)
	if !last {
		t.Fatal("a record of several fragments")
	}
	b = make([]byte, n)
	if _, err := io.ReadFull(c, b); err != nil {
		t.Fatal(err)
	}
	return b
}

// begin starts x and returns a channel with the result of its Done.
func begin(c rpc.Caller, x *rpc.Exchange) <-chan error {
	done := make(chan error, 1)
	x.Done = func(x *rpc.Exchange) { done <- x.Err }
	c.Start(x)
	return done
}

// success returns a reply with an opaque result.
func success(xid uint32, result []byte) []byte {
	w := xdr.NewWriter(make([]byte, 0, 64+len(result)))
	rpc.PutAccepted(w, xid, rpc.Success)
	w.Opaque(result)
	return w.Bytes()
}

// If the connection is lost, all calls end with ErrCallLost, and Err returns the reason. The Conn
// cannot know whether the calls were executed, so it sends no call again, neither on this
// connection nor on another one. It starts no further call.
func TestCallLost(t *testing.T) {
	for _, c := range []struct {
		name string
		lose func(c *net.TCPConn)
		// silent is true if the peer still reads. It must then get no more bytes.
		silent bool
		reason string
	}{
		{"closed", func(c *net.TCPConn) { c.Close() }, false, "EOF"},
		{"closed for writing", func(c *net.TCPConn) { c.CloseWrite() }, true, "EOF"},
		{"reset", func(c *net.TCPConn) { c.SetLinger(0); c.Close() }, false, "reset"},
		{"inside a record", func(c *net.TCPConn) { c.Write([]byte{0x80, 0, 0, 9, 1}); c.CloseWrite() }, true, "EOF"},
		{"record over limit", func(c *net.TCPConn) { c.Write([]byte{0xff, 0, 0, 9, 1}) }, true, "limit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			accept := func() *net.TCPConn {
				t.Helper()
				l.(*net.TCPListener).SetDeadline(time.Now().Add(await.Limit))
				peer, err := l.Accept()
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { peer.Close() })
				peer.SetDeadline(time.Now().Add(await.Limit))
				return peer.(*net.TCPConn)
			}
			caller, err := Dial(context.Background(), l.Addr().String(), DialConfig{})
			if err != nil {
				t.Fatal(err)
			}
			defer caller.Close()
			peer := accept()
			var done []<-chan error
			for range 5 {
				done = append(done, begin(caller, exchange(rpctest.NULL, nil)))
				read(t, peer)
			}
			c.lose(peer)
			for _, d := range done {
				if err := await.Receive(t, "a call ends", d); !errors.Is(err, rpc.ErrCallLost) {
					t.Errorf("%v", err)
				}
			}
			await.Receive(t, "the connection ends", caller.Done())
			if err := caller.Err(); err == nil || !strings.Contains(err.Error(), c.reason) {
				t.Errorf("the reason is %v, want one with %q", err, c.reason)
			}
			if err := await.Receive(t, "a call afterwards ends", begin(caller, exchange(rpctest.NULL, nil))); !errors.Is(err, rpc.ErrCallLost) {
				t.Errorf("a call afterwards: %v", err)
			}
			caller.Close()
			if c.silent {
				if more, err := io.ReadAll(peer); len(more) != 0 {
					t.Errorf("%d bytes were sent after five calls: %x (%v)", len(more), more, err)
				}
			}
			// The listener's next connection is the test's own: the caller has made none.
			own, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer own.Close()
			if next := accept(); next.RemoteAddr().String() != own.LocalAddr().String() {
				t.Errorf("the caller connected again, from %v", next.RemoteAddr())
			}
		})
	}
}

func TestCloseEndsCalls(t *testing.T) {
	c, _ := pair(t, DialConfig{})
	done := begin(c, exchange(rpctest.NULL, nil))
	c.Close()
	if err := ended(t, done); !errors.Is(err, rpc.ErrCallLost) {
		t.Errorf("%v", err)
	}
}

// Replies come in any order, in any fragments. Replies that match no call are counted as stray.
func TestRepliesToCaller(t *testing.T) {
	c, peer := pair(t, DialConfig{})
	type call struct {
		xid  uint32
		done <-chan error
		size int
		x    *rpc.Exchange
	}
	var all []call
	for i := range 12 {
		x := exchange(rpctest.ECHO, u32(0))
		n := i * i * 1000
		x.Done = nil
		k := call{size: n, x: x}
		if i%2 == 0 {
			x.Sinks = [][]byte{make([]byte, n)}
			x.Locate = func(d xdr.Decoder) (int, int) {
				n := int(d.Uint32())
				return d.Position(), n
			}
		}
		done := make(chan error, 1)
		x.Done = func(x *rpc.Exchange) {
			err := x.Err
			if got := x.Results.EligibleOpaque(xdr.NoLimit); err == nil && !bytes.Equal(got, rpctest.Pattern(make([]byte, n))) {
				err = errors.New("other bytes")
			}
			if err == nil {
				err = x.Results.Finish()
			}
			done <- err
		}
		k.done = done
		c.Start(x)
		m := read(t, peer)
		k.xid = binary.BigEndian.Uint32(m)
		all = append(all, k)
	}
	for i := len(all) - 1; i >= 0; i-- {
		stray := fragments(success(all[i].xid+100, make([]byte, 50000)), 30000)
		if _, err := peer.Write(stray); err != nil {
			t.Fatal(err)
		}
		m := success(all[i].xid, rpctest.Pattern(make([]byte, all[i].size)))
		sizes := [][]int{nil, {1, 0, 30}, {3000, 1, 2}, repeat(999, 30), {ringRecord + 5, 0}}[i%5]
		if _, err := peer.Write(fragments(m, sizes...)); err != nil {
			t.Fatal(err)
		}
	}
	for i, k := range all {
		if err := ended(t, k.done); err != nil {
			t.Errorf("call %d: %v", i, err)
		}
	}
	if n := c.n.stray.Load(); n != uint64(len(all)) {
		t.Errorf("%d strays", n)
	}
}

func TestReplyTooLong(t *testing.T) {
	c, peer := pair(t, DialConfig{})
	for _, sizes := range [][]int{nil, repeat(20000, 3)} {
		x := exchange(rpctest.ECHO, u32(0))
		x.MaxResults = 50000
		done := begin(c, x)
		xid := binary.BigEndian.Uint32(read(t, peer))
		if _, err := peer.Write(fragments(success(xid, make([]byte, 60000)), sizes...)); err != nil {
			t.Fatal(err)
		}
		if err := ended(t, done); err != ErrReplyTooLong {
			t.Errorf("%v", err)
		}
	}
	// The connection still works.
	x := exchange(rpctest.ECHO, u32(0))
	done := begin(c, x)
	xid := binary.BigEndian.Uint32(read(t, peer))
	if _, err := peer.Write(fragments(success(xid, nil))); err != nil {
		t.Fatal(err)
	}
	if err := ended(t, done); err != nil {
		t.Error(err)
	}
}

func TestMalformedReply(t *testing.T) {
	c, peer := pair(t, DialConfig{})
	done := begin(c, exchange(rpctest.NULL, nil))
	m := read(t, peer)
	if _, err := peer.Write(fragments(append(m[:4:4], 0, 0, 0, 1, 0, 0, 0, 9))); err != nil {
		t.Fatal(err)
	}
	if err := ended(t, done); !errors.Is(err, rpc.ErrBadReply) {
		t.Errorf("%v", err)
	}
}

// After Cancel, the rest of a reply that had partly arrived does not touch the sink any more.
func TestCancelWhileReplyArrives(t *testing.T) {
	c, peer := pair(t, DialConfig{})
	const n = 1 << 20
	x := exchange(rpctest.ECHO, u32(0))
	sink := make([]byte, n)
	x.Sinks = [][]byte{sink}
	x.Locate = func(d xdr.Decoder) (int, int) {
		n := int(d.Uint32())
		return d.Position(), n
	}
	done := begin(c, x)
	xid := binary.BigEndian.Uint32(read(t, peer))
	reply := fragments(success(xid, bytes.Repeat([]byte{1}, n)))
	if _, err := peer.Write(reply[:n/2]); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "half of the reply is there", func() bool { return c.c.received.Load() >= n/2 })
	why := errors.New("enough")
	c.Cancel(x, why)
	if err := ended(t, done); err != why {
		t.Fatal(err)
	}
	clear(sink)
	c.Cancel(x, why) // does not call Done again
	other := begin(c, exchange(rpctest.NULL, nil))
	xid = binary.BigEndian.Uint32(read(t, peer))
	if _, err := peer.Write(append(reply[n/2:], fragments(success(xid, nil))...)); err != nil {
		t.Fatal(err)
	}
	if err := ended(t, other); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(sink, make([]byte, n)) {
		t.Error("the sink was written to after Cancel")
	}
}

// After Cancel the caller may change the arguments at once: bytes that are sent later are those
// from before Cancel.
func TestCancelBeforeArgumentsAreSent(t *testing.T) {
	c, peer := pair(t, DialConfig{})
	data := rpctest.Pattern(make([]byte, 16<<20))
	x := exchange(rpctest.PUT, nil)
	x.Args = func(w *xdr.Writer) { w.Payload(data, true, nil) }
	done := begin(c, x)
	c.Cancel(x, context.Canceled)
	if err := ended(t, done); err != context.Canceled {
		t.Fatal(err)
	}
	clear(data)
	m := read(t, peer)
	if !bytes.Equal(m[len(m)-len(data):], rpctest.Pattern(data)) {
		t.Error("the bytes sent are not those that were given")
	}
}

// Do gives up when its context ends.
func TestDoWithContext(t *testing.T) {
	c, _ := pair(t, DialConfig{})
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("enough")
	cancel(why)
	if err := rpc.Do(ctx, c, exchange(rpctest.NULL, nil), nil); err != why {
		t.Errorf("%v", err)
	}
}

// Both ends call over one connection (RFC 8167 specifies this for RDMA; NFSv4.1 needs it on every
// transport).
func TestBothRoles(t *testing.T) {
	f := start(t, Config{})
	back := make(chan rpc.Caller, 1)
	var once sync.Once
	f.program.Judging = func(a *rpc.Arrived, j *rpc.Judgement) rpc.Outcome {
		once.Do(func() { back <- a.Conn.Caller() })
		return rpc.Done
	}
	pool, err := mem.NewPool(mem.Config{Ceiling: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	mine, program := rpc.NewServer(rpc.Config{}), rpctest.NewProgram()
	defer mine.Close()
	mine.Register(program)
	c := f.dial(DialConfig{RPC: mine, Pool: pool})
	defer c.Close()
	if err := rpc.Do(context.Background(), c, exchange(rpctest.NULL, nil), nil); err != nil {
		t.Fatal(err)
	}
	backwards := ended(t, back)
	var wg sync.WaitGroup
	for _, k := range []rpc.Caller{c, backwards} {
		for range 4 {
			wg.Go(func() {
				for range 20 {
					want := rpctest.Pattern(make([]byte, 200000))
					if err := rpc.Do(context.Background(), k, exchange(rpctest.GET, u32(200000)), func(d *xdr.Decoder) error {
						if !bytes.Equal(d.EligibleOpaque(xdr.NoLimit), want) {
							return errors.New("other bytes")
						}
						return d.Finish()
					}); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	if a, b := f.program.Served[rpctest.GET].Load(), program.Served[rpctest.GET].Load(); a != 80 || b != 80 {
		t.Errorf("%d calls forwards, %d backwards", a, b)
	}
	c.Close()
	if err := ended(t, begin(backwards, exchange(rpctest.NULL, nil))); !errors.Is(err, rpc.ErrCallLost) {
		t.Errorf("backwards after the end: %v", err)
	}
}

// A caller without programs does not answer calls.
func TestCallsToCaller(t *testing.T) {
	c, peer := pair(t, DialConfig{})
	if _, err := peer.Write(append(fragments(rpctest.Message(1, rpctest.NULL, nil)),
		fragments(rpctest.Message(1, rpctest.ECHO, func(w *xdr.Writer) { w.Opaque(make([]byte, 60000)) }))...)); err != nil {
		t.Fatal(err)
	}
	done := begin(c, exchange(rpctest.NULL, nil))
	xid := binary.BigEndian.Uint32(read(t, peer))
	if _, err := peer.Write(fragments(success(xid, nil))); err != nil {
		t.Fatal(err)
	}
	if err := ended(t, done); err != nil {
		t.Fatal(err)
	}
}

// A call whose arguments exceed MaxArgs fails, and is not sent cut off.
func TestArgumentsBeyondMaxArgs(t *testing.T) {
	f := start(t, Config{})
	c := f.dial(DialConfig{})
	x := exchange(rpctest.BUMP, func(w *xdr.Writer) { w.FixedOpaque(make([]byte, 1<<20)) })
	x.MaxArgs = 8
	if err := rpc.Do(t.Context(), c, x, nil); err == nil || err.Error() != "tcp: arguments exceed MaxArgs" {
		t.Errorf("%v", err)
	}
	if err := rpc.Do(t.Context(), c, exchange(rpctest.NULL, nil), nil); err != nil {
		t.Errorf("the next call: %v", err)
	}
	if n := f.Stats().Calls; n != 1 {
		t.Errorf("%d calls have arrived", n)
	}
}
