package nfs40_test

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs40"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// The server keeps owners without state for one lease, because their last requests may be
// repeated in that time (RFC 7530 §9.1.10).
func TestIdleOwnersAreKeptForALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t)
		for i := range 2500 {
			c.run(t, wire.NFS4ErrNoEnt, putRootFH, c.owner("o"+strconv.Itoa(i)).open("missing", readMode, denyNone))
		}
		if n := c.State.Usage().Owners; n != 2500 {
			t.Errorf("%d owners are kept", n)
		}
		time.Sleep(c.State.Lease() + time.Second)
		c.run(t, ok, renew(c.id))
		c.run(t, wire.NFS4ErrNoEnt, putRootFH, c.owner("one more").open("missing", readMode, denyNone))
		if n := c.State.Usage().Owners; n > 1 {
			t.Errorf("%d owners are kept after a lease", n)
		}
	})
}

// New unconfirmed clients displace other unconfirmed clients, but no confirmed ones.
func TestUnconfirmedClientsAreBounded(t *testing.T) {
	p := newPeer(t)
	first, confirm := p.set(t, "first", 1)
	kept := p.client(t, "kept")
	var latest uint64
	var latestConfirm wire.Verifier4
	for i := range 5000 {
		latest, latestConfirm = p.set(t, "x"+strconv.Itoa(i), 1)
	}
	p.run(t, wire.NFS4ErrStaleClientID, confirmClientID(first, confirm))
	p.run(t, ok, confirmClientID(latest, latestConfirm))
	p.run(t, ok, renew(kept.id))
}

// A SETCLIENTID that makes no new client leaves nothing behind.
func TestRepeatedSetClientIDKeepsNoMemory(t *testing.T) {
	c := newCalled(t)
	c.known(t, "x", "")
	objects := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // the first one keeps what is in a sync.Pool
		runtime.ReadMemStats(&m)
		return m.HeapObjects
	}
	const times = 5000
	repeat := func() uint64 {
		for range times {
			c.run(t, ok, setCallback("x", 1, wire.CBClient4{}, 77))
		}
		return objects()
	}
	before := repeat() // now the memory that the test server keeps for good is there
	if after := repeat(); after > before+times/10 {
		t.Errorf("%d objects more after %d requests", after-before, times)
	}
}

// The number of connections for callbacks is limited. One address may use at most half of the
// connections that other addresses leave free, however many clients it has.
func TestConnectionsForCallbacksAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCalled(t)
		c.callbacks.set(false, true)
		for i := range 400 {
			c.known(t, fmt.Sprint("one address ", i), own)
		}
		synctest.Wait()
		if _, _, open := c.callbacks.seen(); open != 128 {
			t.Errorf("one address has %d connections", open)
		}
		other := c.Site.Peer(0)
		from := netip.MustParseAddr("10.9.9.9")
		other.Conn = c.Site.RPC.NewConn(netip.AddrPortFrom(from, 700), netip.AddrPort{}, "tcp", true)
		(&called{peer: &peer{other}}).known(t, "another", "10.9.9.9.4.1")
		synctest.Wait()
		if _, _, open := c.callbacks.seen(); open != 129 {
			t.Errorf("%d connections, with that of another address", open)
		}
	})
}

// When a connection for callbacks ends, for whatever reason, the server and its address can have
// another connection instead.
func TestPlacesOfCallbackConnectionsComeBack(t *testing.T) {
	const most = 8 // one address may use half of them
	for name, end := range map[string]func(c *called, ch *nfs40.Channel){
		"it is not made":             nil,
		"the client does not answer": func(*called, *nfs40.Channel) { time.Sleep(time.Minute) },
		"the client answers": func(c *called, ch *nfs40.Channel) {
			time.Sleep(time.Minute)
			c.callbacks.set(false, false)
			ch.Null(context.Background())
		},
		"it goes elsewhere":            func(_ *called, ch *nfs40.Channel) { ch.Retarget(state.Callback{}); time.Sleep(time.Minute) },
		"the caller waits no longer":   func(c *called, ch *nfs40.Channel) { time.Sleep(time.Minute); nullNow(ch) },
		"the client begins once more":  nil,
		"the client's connection dies": nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCalledOf(t, most)
				for round := range 3 * most {
					c.callbacks.set(name == "it is not made", true)
					client := fmt.Sprintf("%s %d", name, round)
					id := c.known(t, client, own)
					synctest.Wait()
					ch := nfs40.ChannelOf(c.State.Client(id))
					switch name {
					case "the client begins once more":
						d, s := c.set(t, client, 2) // without a callback address
						c.run(t, ok, confirmClientID(d, s))
						synctest.Wait()
						time.Sleep(time.Minute)
					case "the client's connection dies":
						c.callbacks.cut()
					case "it is not made":
					default:
						end(c, ch)
					}
					synctest.Wait()
					if _, _, open := c.callbacks.seen(); open != 0 {
						t.Fatalf("round %d: %d connections are left", round, open)
					}
				}
				c.callbacks.set(false, true)
				for i := range 3 * most {
					c.known(t, fmt.Sprint("last ", i), own)
				}
				synctest.Wait()
				if _, _, open := c.callbacks.seen(); open != most/2 {
					t.Errorf("an address has %d connections at the end, want %d", open, most/2)
				}
				for i := range 3 * most {
					p := c.Site.Peer(0)
					p.Conn = c.Site.RPC.NewConn(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 9, byte(i), 9}), 700), netip.AddrPort{}, "tcp", true)
					(&called{peer: &peer{p}}).known(t, fmt.Sprint("of its own address ", i), fmt.Sprintf("10.9.%d.9.4.1", i))
				}
				synctest.Wait()
				if _, _, open := c.callbacks.seen(); open != most {
					t.Errorf("all addresses have %d connections at the end, want %d", open, most)
				}
			})
		})
	}
}

// nullNow calls CB_NULL with a context that has already ended.
func nullNow(ch *nfs40.Channel) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	ch.Null(ctx)
}
