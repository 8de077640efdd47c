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

// A guardian is a Protect for tests. It records the calls that it protects.
type guardian struct {
	mu sync.Mutex
	// creds are the credentials of the clients. programs are the program and version numbers of the
	// calls that it prepared.
	creds    []rpc.Cred
	programs []uint32
	// none makes the guardian protect no client. silent makes the KDC not answer. refuse makes the
	// client accept no context. deaf makes the client not answer the destruction of the context.
	none, silent, refuse, deaf bool
	// dialed has, for each preparation, the number of connections made before it.
	dialed    []int
	callbacks *callbacks
	open      int
}

func (g *guardian) protect(c *rpc.Cred) nfs40.Protect {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.creds = append(g.creds, rpc.Cred{Flavor: c.Flavor, Principal: c.Principal, Target: c.Target, GSS: c.GSS})
	if g.none {
		return nil
	}
	return g.prepare
}

func (g *guardian) prepare(ctx context.Context, program, version uint32) (func(context.Context, rpc.Caller) (rpc.Client, error), error) {
	n, _, _ := g.callbacks.seen()
	g.mu.Lock()
	g.programs = append(g.programs, program, version)
	g.dialed = append(g.dialed, n)
	silent := g.silent
	g.mu.Unlock()
	if silent {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return func(_ context.Context, k rpc.Caller) (rpc.Client, error) {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.refuse {
			return nil, errors.New("no context")
		}
		g.open++
		return &guarded{k, g}, nil
	}, nil
}

type guarded struct {
	rpc.Caller
	*guardian
}

func (c *guarded) Start(x *rpc.Exchange) {
	x.Cred = rpc.AuthBytes{Flavor: rpc.AuthGSS, Body: []byte("signed")}
	c.Caller.Start(x)
}

// Close destroys the context. If deaf is set, the client does not answer.
func (c *guarded) Close() {
	if c.deaf {
		c.callbacks.set(false, true)
		_ = rpc.Do(context.Background(), c.Caller, &rpc.Exchange{Procedure: 99}, nil)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
}

// guardedSite makes a server whose callbacks g protects. Its peer has a principal.
func guardedSite(t *testing.T, g *guardian) *called {
	c := &called{callbacks: &callbacks{}}
	g.callbacks = c.callbacks
	s := nfs4test.New(t, nfs4test.Config{Minors: func(m *state.Manager) [3]nfs4.Minor {
		c.minor = nfs40.New(nfs40.Config{State: m, Dial: c.callbacks.dial, Machine: "server", Protect: g.protect})
		return [3]nfs4.Minor{c.minor}
	}})
	t.Cleanup(c.minor.Close)
	c.peer = &peer{s.Peer(0)}
	c.peer.Principal = "nfs/client@TEST"
	return c
}

// If a client sent SETCLIENTID under RPCSEC_GSS, the server calls it under RPCSEC_GSS too, as the
// principal that the client used for the server (RFC 7530 §3.3.3). The server gets the ticket
// before it connects.
func TestCallbacksAreProtected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &guardian{}
		c := guardedSite(t, g)
		id := c.known(t, "x", own)
		synctest.Wait()
		b := c.callbacks
		if len(b.calls) != 1 || b.calls[0].Cred.Flavor != rpc.AuthGSS || string(b.calls[0].Cred.Body) != "signed" || b.calls[0].Procedure != wire.ProcCBNull {
			t.Fatalf("%+v", b.calls)
		}
		if len(g.creds) != 1 || g.creds[0].Principal != "nfs/client@TEST" || g.creds[0].Target != nfs4test.Server || g.creds[0].GSS != rpc.GSSIntegrity {
			t.Errorf("%+v", g.creds)
		}
		if len(g.programs) != 2 || g.programs[0] != 0x40000000 || g.programs[1] != 1 || g.dialed[0] != 0 {
			t.Errorf("prepared for %v, with %v connections", g.programs, g.dialed)
		}
		if ch := nfs40.ChannelOf(c.State.Client(id)); !ch.Up() {
			t.Error("the client cannot be called")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if _, _, open := b.seen(); open != 0 || g.open != 0 {
			t.Errorf("%d connections and %d contexts are left", open, g.open)
		}
	})
}

// If callbacks to a client cannot be protected, the server makes no callbacks to it.
func TestCallbacksNeverLoseTheirProtection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &guardian{none: true}
		c := guardedSite(t, g)
		if ch := nfs40.ChannelOf(c.State.Client(c.known(t, "x", own))); ch != nil {
			t.Error("there is a channel")
		}
		g.none, g.refuse = false, true
		ch := nfs40.ChannelOf(c.State.Client(c.known(t, "y", own)))
		synctest.Wait()
		if err := ch.Null(t.Context()); err == nil || ch.Up() {
			t.Errorf("a client that takes no context: %v", err)
		}
		if _, calls, open := c.callbacks.seen(); calls != 0 || open != 0 {
			t.Errorf("%d calls, %d connections are left", calls, open)
		}
	})
}

// While a KDC does not answer, the server opens no connection for callbacks, and the client's own
// requests do not wait. The attempt ends after a time limit, or when the server ends.
func TestSilentKDC(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &guardian{silent: true}
		c := guardedSite(t, g)
		start := time.Now()
		id := c.known(t, "x", own)
		for range 5 { // the client confirms itself repeatedly
			c.known(t, "x", own)
		}
		if time.Since(start) > 0 {
			t.Errorf("the client waited %v", time.Since(start))
		}
		synctest.Wait()
		if n := len(g.dialed); n != 1 {
			t.Errorf("%d attempts at once", n)
		}
		ch := nfs40.ChannelOf(c.State.Client(id))
		if err := ch.Null(t.Context()); err == nil || time.Since(start) > 15*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		ended := make(chan error)
		go func() { ended <- ch.Null(context.Background()) }()
		synctest.Wait()
		start = time.Now()
		c.minor.Close()
		if err := <-ended; err == nil || time.Since(start) > 0 {
			t.Errorf("%v, %v after the end", err, time.Since(start))
		}
		if dialed, _, _ := c.callbacks.seen(); dialed != 0 {
			t.Errorf("%d connections were made", dialed)
		}
	})
}

// The server closes the connection of a callback after farewellTime, even if the client does not
// answer and is gone.
func TestFarewellIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &guardian{deaf: true}
		c := guardedSite(t, g)
		id := c.known(t, "x", own)
		synctest.Wait()
		ch := nfs40.ChannelOf(c.State.Client(id))
		start := time.Now()
		d, s := c.set(t, "x", 2) // another incarnation
		c.run(t, ok, confirmClientID(d, s))
		if time.Since(start) > 0 {
			t.Errorf("waited %v", time.Since(start))
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if err := ch.Null(t.Context()); err == nil {
			t.Error("a client that is gone was called")
		}
		start = time.Now()
		c.minor.Close()
		if _, _, open := c.callbacks.seen(); open != 0 || g.open != 0 || time.Since(start) > 0 {
			t.Errorf("%d connections, %d contexts are left after %v", open, g.open, time.Since(start))
		}
	})
}
