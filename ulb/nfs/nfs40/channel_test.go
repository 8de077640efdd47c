package nfs40_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs40"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// callbacks are the ends of callback connections at the clients.
type callbacks struct {
	mu sync.Mutex
	// refuse is true if the client refuses connections. deaf is true if the client accepts
	// connections and does not answer calls.
	refuse, deaf bool
	dialed       []string
	calls        []rpc.Exchange
	open         int
	conns        []*callbackConn
}

func (b *callbacks) dial(ctx context.Context, network, address string) (rpc.Client, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dialed = append(b.dialed, network+" "+address)
	if b.refuse {
		return nil, errors.New("connection refused")
	}
	b.open++
	c := &callbackConn{callbacks: b, waiting: map[*rpc.Exchange]bool{}}
	b.conns = append(b.conns, c)
	return c, nil
}

func (b *callbacks) set(refuse, deaf bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refuse, b.deaf = refuse, deaf
}

// cut ends the connections. Calls without an answer fail.
func (b *callbacks) cut() {
	b.mu.Lock()
	var lost []*rpc.Exchange
	for _, c := range b.conns {
		for x, waits := range c.waiting {
			if waits {
				c.waiting[x] = false
				lost = append(lost, x)
			}
		}
	}
	b.mu.Unlock()
	for _, x := range lost {
		x.Err = rpc.ErrCallLost
		x.Done(x)
	}
}

func (b *callbacks) seen() (dialed, calls, open int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.dialed), len(b.calls), b.open
}

type callbackConn struct {
	*callbacks
	waiting map[*rpc.Exchange]bool
}

func (c *callbackConn) Start(x *rpc.Exchange) {
	c.mu.Lock()
	c.calls = append(c.calls, *x)
	deaf := c.deaf
	c.waiting[x] = deaf
	c.mu.Unlock()
	if deaf {
		return
	}
	x.Results.Reset(nil, 0, nil)
	x.Done(x)
}

func (c *callbackConn) Cancel(x *rpc.Exchange, err error) {
	c.mu.Lock()
	waits := c.waiting[x]
	c.waiting[x] = false
	c.mu.Unlock()
	if waits {
		x.Err = err
		x.Done(x)
	}
}

func (c *callbackConn) Close() {
	c.mu.Lock()
	c.open--
	var left []*rpc.Exchange
	for x, waits := range c.waiting {
		if waits {
			c.waiting[x] = false
			left = append(left, x)
		}
	}
	c.mu.Unlock()
	for _, x := range left {
		x.Err = rpc.ErrCallLost
		x.Done(x)
	}
}

// A called is a test server whose clients accept callbacks.
type called struct {
	*peer
	callbacks *callbacks
	minor     *nfs40.Minor
	delegated bool
}

func newCalled(t testing.TB) *called { return newCalledOf(t, 0) }

// newCalledOf makes a test server with at most this number of connections for callbacks. 0 means
// the default.
func newCalledOf(t testing.TB, connections int) *called {
	t.Helper()
	c := &called{callbacks: &callbacks{}}
	s := nfs4test.New(t, nfs4test.Config{Minors: func(m *state.Manager) [3]nfs4.Minor {
		c.minor = nfs40.New(nfs40.Config{
			State: m, Dial: c.callbacks.dial, Machine: "server", Connections: connections, Delegated: func(*state.Client) bool { return c.delegated },
		})
		return [3]nfs4.Minor{c.minor}
	}})
	t.Cleanup(c.minor.Close)
	populate(t, s.FS)
	c.peer = &peer{s.Peer(0)}
	return c
}

// callbackAt returns the callback parameters of a client with an address.
func callbackAt(a string) wire.CBClient4 {
	return wire.CBClient4{CBProgram: 0x40000000, CBLocation: wire.NetAddr4{RNetid: []byte("tcp"), RAddr: []byte(a)}}
}

// known registers and confirms a client with a callback address.
func (c *called) known(t testing.TB, name, address string) (id uint64) {
	t.Helper()
	var res wire.SetClientID4Res
	last(t, c.run(t, ok, setCallback(name, 1, callbackAt(address), 77)), &res)
	c.run(t, ok, confirmClientID(res.ResOK.Clientid, res.ResOK.SetclientidConfirm))
	return res.ResOK.Clientid
}

// inBubble runs a test in the fake time of testing/synctest.
func inBubble(t *testing.T, f func(t *testing.T, c *called)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newCalled(t)) })
}

const own = "10.1.2.3.4.5" // the address of peers, and port 1029

// After a client has confirmed itself, the server probes its callback address.
func TestCallbackIsProbed(t *testing.T) {
	inBubble(t, func(t *testing.T, c *called) {
		id := c.known(t, "x", own)
		synctest.Wait()
		b := c.callbacks
		if len(b.dialed) != 1 || b.dialed[0] != "tcp 10.1.2.3:1029" || len(b.calls) != 1 {
			t.Fatalf("%q, %d calls", b.dialed, len(b.calls))
		}
		x := &b.calls[0]
		if x.Program != 0x40000000 || x.Version != 1 || x.Procedure != wire.ProcCBNull || x.Cred.Flavor != rpc.AuthSys {
			t.Errorf("%+v", x)
		}
		if ch := nfs40.ChannelOf(c.State.Client(id)); !ch.Up() {
			t.Error("the client cannot be called")
		}
	})
}

// CallbackTo has the address at which a client is called back, and whether the latest call reached it. It has none of a
// client that named another address than its own.
func TestWhereAClientIsCalledBack(t *testing.T) {
	inBubble(t, func(t *testing.T, c *called) {
		near, far := c.State.Client(c.known(t, "near", own)), c.State.Client(c.known(t, "far", "10.1.2.4.4.5"))
		synctest.Wait()
		if at, up, ok := nfs40.CallbackTo(near); at.String() != "10.1.2.3:1029" || !up || !ok {
			t.Errorf("%v, up %v, %v", at, up, ok)
		}
		if at, up, ok := nfs40.CallbackTo(far); at.IsValid() || up || !ok {
			t.Errorf("of the other: %v, up %v, %v", at, up, ok)
		}
		c.callbacks.set(true, false)
		c.callbacks.cut()
		if err := nfs40.ChannelOf(near).Null(t.Context()); err == nil {
			t.Fatal("the client refuses connections, and was called")
		}
		if at, up, ok := nfs40.CallbackTo(near); at.String() != "10.1.2.3:1029" || up || !ok {
			t.Errorf("after a call that failed: %v, up %v, %v", at, up, ok)
		}
	})
}

// The server connects only to the caller's own address, and only over TCP.
func TestCallbackGoesToTheCallerAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, c *called) {
		for i, a := range []string{"10.1.2.4.4.5", "127.0.0.1.4.5", "0.0.0.0.4.5", "10.1.2.3.0.0", "::1.4.5", "10.1.2.3", "", "10.1.2.3.1.2.3", "x"} {
			id := c.known(t, string(rune('a'+i)), a)
			synctest.Wait()
			ch := nfs40.ChannelOf(c.State.Client(id))
			if err := ch.Null(t.Context()); !errors.Is(err, nfs40.ErrNoAddress) || ch.Up() {
				t.Errorf("%s: %v, up %v", a, err, ch.Up())
			}
		}
		if n, _, _ := c.callbacks.seen(); n != 0 {
			t.Errorf("dialed %q", c.callbacks.dialed)
		}
	})
}

func TestRenewSaysThatCallbacksDoNotWork(t *testing.T) {
	inBubble(t, func(t *testing.T, c *called) {
		c.callbacks.set(true, false)
		id := c.known(t, "x", own)
		synctest.Wait()
		c.run(t, ok, renew(id)) // a client without delegations does not need callbacks
		c.delegated = true
		c.run(t, wire.NFS4ErrCBPathDown, renew(id))
		synctest.Wait()
		c.callbacks.set(false, false)
		c.run(t, wire.NFS4ErrCBPathDown, renew(id)) // this starts another probe
		synctest.Wait()
		c.run(t, ok, renew(id))
	})
}

// The server gives up a callback after a time limit if the client does not answer or cannot be
// reached.
func TestCallbackIsBoundedInTime(t *testing.T) {
	inBubble(t, func(t *testing.T, c *called) {
		c.callbacks.set(false, true)
		start := time.Now()
		id := c.known(t, "x", own)
		ch := nfs40.ChannelOf(c.State.Client(id))
		if err := ch.Null(t.Context()); err == nil || ch.Up() {
			t.Errorf("%v, up %v", err, ch.Up())
		}
		if d := time.Since(start); d > 15*time.Second {
			t.Errorf("given up after %v", d)
		}
		synctest.Wait()
		if _, _, open := c.callbacks.seen(); open != 0 {
			t.Errorf("%d connections are left", open)
		}
	})
}

// If the client ends the connection instead of answering, as Linux's client does while it cannot accept a context, the
// server probes it again. It does so a few times only.
func TestCallbackIsProbedAgain(t *testing.T) {
	for _, answers := range []bool{true, false} {
		inBubble(t, func(t *testing.T, c *called) {
			c.callbacks.set(false, true)
			id := c.known(t, "x", own)
			synctest.Wait()
			c.callbacks.cut()
			if answers {
				c.callbacks.set(false, false)
			}
			for range 10 {
				time.Sleep(3 * time.Second)
				synctest.Wait()
				c.callbacks.cut()
			}
			dialed, _, open := c.callbacks.seen()
			if up := nfs40.ChannelOf(c.State.Client(id)).Up(); up != answers || open != 0 {
				t.Errorf("answers %v: up %v, %d connections are left", answers, up, open)
			}
			if answers && dialed != 2 || !answers && dialed != 4 {
				t.Errorf("answers %v: %d connections", answers, dialed)
			}
		})
	}
}

// The connection of a callback ends with the callback.
func TestCallbackConnectionEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, c *called) {
		id := c.known(t, "x", own)
		synctest.Wait()
		if err := nfs40.ChannelOf(c.State.Client(id)).Null(t.Context()); err != nil {
			t.Error(err)
		}
		if dialed, calls, open := c.callbacks.seen(); dialed != 2 || calls != 2 || open != 0 {
			t.Errorf("%d connections made, %d calls, %d open", dialed, calls, open)
		}
	})
}

// Callbacks go to the latest address that the client has confirmed.
func TestCallbackMoves(t *testing.T) {
	inBubble(t, func(t *testing.T, c *called) {
		id := c.known(t, "x", own)
		synctest.Wait()
		var res wire.SetClientID4Res
		last(t, c.run(t, ok, setCallback("x", 1, callbackAt("10.1.2.3.8.8"), 78)), &res)
		synctest.Wait()
		if n, _, _ := c.callbacks.seen(); n != 1 {
			t.Error("dialed before the confirmation")
		}
		c.run(t, ok, confirmClientID(id, res.ResOK.SetclientidConfirm))
		synctest.Wait()
		b := c.callbacks
		if len(b.dialed) != 2 || b.dialed[1] != "tcp 10.1.2.3:2056" || b.open != 0 {
			t.Errorf("%q, %d open", b.dialed, b.open)
		}
	})
}

// When a client is gone or the server ends, the callback connections and the calls on them end too.
func TestCallbacksEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, c *called) {
		id := c.known(t, "x", own)
		synctest.Wait()
		ch := nfs40.ChannelOf(c.State.Client(id))
		d, s := c.set(t, "x", 2)
		c.run(t, ok, confirmClientID(d, s))
		synctest.Wait()
		if err := ch.Null(t.Context()); err == nil {
			t.Error("a client that is gone was called")
		}
		if _, _, open := c.callbacks.seen(); open != 0 {
			t.Errorf("%d connections are left", open)
		}
	})
	inBubble(t, func(t *testing.T, c *called) {
		id := c.known(t, "x", own)
		synctest.Wait()
		c.callbacks.set(false, true)
		ended := make(chan error)
		go func() { ended <- nfs40.ChannelOf(c.State.Client(id)).Null(context.Background()) }()
		synctest.Wait()
		start := time.Now()
		c.minor.Close()
		if err := <-ended; err == nil || time.Since(start) > 0 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if _, _, open := c.callbacks.seen(); open != 0 {
			t.Errorf("%d connections are left", open)
		}
		if err := nfs40.ChannelOf(c.State.Client(id)).Null(t.Context()); err == nil {
			t.Error("called after the end")
		}
	})
}
