package nfs40_test

import (
	"fmt"
	"net/netip"
	"strconv"
	"testing"
	"testing/synctest"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// Owners that hold nothing are not kept for ever, however many a client makes up.
func TestIdleOwnersAreBounded(t *testing.T) {
	c := newClient(t)
	for i := range 2500 {
		c.run(t, wire.NFS4ErrNoEnt, putRootFH, c.owner("o"+strconv.Itoa(i)).open("missing", readMode, denyNone))
	}
	if n := c.State.Usage().Owners; n > 1500 {
		t.Errorf("%d owners are kept", n)
	}
}

// Clients that never confirm themselves push each other out, and no confirmed ones.
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

// Connections for callbacks are bounded, and one address has as many of them as it leaves to
// others, however many clients it says that it has.
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
