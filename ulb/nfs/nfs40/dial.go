package nfs40

import (
	"cmp"
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/fair"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// A dialer makes callbacks, with a connection for each. Its method stopAndWait ends all of them.
type dialer struct {
	dial rpc.Dialer
	ctx  context.Context
	stop context.CancelFunc
	// mu guards ending and room. work counts the callbacks. While ending is true, no more of them
	// may begin.
	mu     sync.Mutex
	ending bool
	work   sync.WaitGroup
	// room counts the connections; each is a holder of one.
	room fair.Tree[struct{}]
}

// A connection is the place of a connection in dialer.room.
type connection = fair.Node[struct{}]

func newDialer(dial rpc.Dialer, most int) *dialer {
	d := &dialer{dial: dial, room: fair.Tree[struct{}]{Size: int64(cmp.Or(most, 256))}}
	d.ctx, d.stop = context.WithCancel(context.Background())
	return d
}

// stopAndWait cancels all callbacks, and waits until their connections are closed.
func (d *dialer) stopAndWait() {
	d.mu.Lock()
	d.ending = true
	d.mu.Unlock()
	d.stop()
	d.work.Wait()
}

// begin counts one callback in work, so that stopAndWait waits for it. It returns false if
// stopAndWait was called already.
func (d *dialer) begin() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.ending {
		d.work.Add(1)
	}
	return !d.ending
}

// countConnection counts a connection to an address. It returns nil if the address may have no more
// connections (fair.Tree.May). Otherwise the caller later calls give.
func (d *dialer) countConnection(to netip.Addr) *connection {
	c := &connection{Address: to}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.room.May(c, 1) {
		return nil
	}
	d.room.Add(c, 1, 0)
	return c
}

// give subtracts a connection that countConnection counted.
func (d *dialer) give(c *connection) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.room.Add(c, -1, 0)
}

// null makes the call CB_NULL over a new connection. It prepares the protection first, so that no
// socket is open while it waits for other servers, such as a Kerberos server.
func (d *dialer) null(ctx context.Context, t *state.Callback, cred rpc.AuthBytes, protect Protect) (err error) {
	if !t.Dial.IsValid() {
		return ErrNoAddress
	}
	if !d.begin() {
		return errGone
	}
	defer d.work.Done()
	var start func(context.Context, rpc.Caller) (rpc.Client, error)
	if protect != nil {
		if start, err = protect(ctx, t.Program, wire.CallbackVersion); err != nil {
			return err
		}
	}
	counted := d.countConnection(t.Dial.Addr())
	if counted == nil {
		return errTooMany
	}
	defer d.give(counted)
	dialing, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	client, err := d.dial(dialing, "tcp", t.Dial.String())
	if err != nil {
		return err
	}
	cut := sync.OnceFunc(client.Close)
	defer cut()
	if start != nil {
		protected, err := start(ctx, client)
		if err != nil {
			return err
		}
		defer d.farewell(protected, cut)
		client = protected
	}
	x := &rpc.Exchange{Program: t.Program, Version: wire.CallbackVersion, Procedure: wire.ProcCBNull, Cred: cred}
	return rpc.Do(ctx, client, x, nil)
}

// farewell tells the client that the RPCSEC_GSS context ends. If the client does not answer within
// farewellTime, or the dialer ends, farewell cuts the connection.
func (d *dialer) farewell(protected rpc.Client, cut func()) {
	late := time.AfterFunc(farewellTime, cut)
	defer late.Stop()
	defer context.AfterFunc(d.ctx, cut)()
	protected.Close()
}
