package nfs40

import (
	"cmp"
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// A dialer makes callbacks, with a connection for each. Its method stopAndWait ends all of them.
type dialer struct {
	dial rpc.Dialer
	ctx  context.Context
	stop context.CancelFunc
	// most is the maximum number of connections at once.
	most int
	// mu guards ending, taken and all. work counts the callbacks. While ending is true, no more of them
	// may begin.
	mu     sync.Mutex
	ending bool
	work   sync.WaitGroup
	// taken counts the connections by client address (see clientaddr.Of). all is their total.
	taken map[netip.Addr]int
	all   int
}

func newDialer(dial rpc.Dialer, most int) *dialer {
	d := &dialer{dial: dial, most: cmp.Or(most, 256), taken: make(map[netip.Addr]int)}
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

// countConnection counts a connection to an address. It returns false if there are too many
// connections, or if the address already has as many connections as may still be made to all
// addresses. If countConnection returns true, the caller later calls give.
func (d *dialer) countConnection(to netip.Addr) bool {
	to = clientaddr.Of(to)
	d.mu.Lock()
	defer d.mu.Unlock()
	if left := d.most - d.all; left == 0 || d.taken[to] > 0 && d.taken[to] >= left {
		return false
	}
	d.taken[to]++
	d.all++
	return true
}

// give subtracts a connection that countConnection counted.
func (d *dialer) give(to netip.Addr) {
	to = clientaddr.Of(to)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all--
	if d.taken[to]--; d.taken[to] == 0 {
		delete(d.taken, to)
	}
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
	if !d.countConnection(t.Dial.Addr()) {
		return errTooMany
	}
	defer d.give(t.Dial.Addr())
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
