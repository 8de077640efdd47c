package nfs40_test

import (
	"strconv"
	"testing"

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

// Clients that never confirm themselves push each other out, and nobody else.
func TestUnconfirmedClientsAreBounded(t *testing.T) {
	p := newPeer(t)
	first, confirm := p.set(t, "first", 1)
	kept := p.client(t, "kept")
	var latest uint64
	var latestConfirm wire.Verifier4
	for i := range 3000 {
		latest, latestConfirm = p.set(t, "x"+strconv.Itoa(i), 1)
	}
	p.run(t, wire.NFS4ErrStaleClientID, confirmClientID(first, confirm))
	p.run(t, ok, confirmClientID(latest, latestConfirm))
	p.run(t, ok, renew(kept.id))
}
