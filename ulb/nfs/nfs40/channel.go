package nfs40

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// A Channel makes callbacks to one client. It connects to the client's address when it has to, and
// has at most one connection at a time.
type Channel struct {
	dialer *dialer
	cred   rpc.AuthBytes
	// protect, if set, protects the calls to a client whose SETCLIENTID used RPCSEC_GSS.
	protect Protect
	// up is true if the latest call reached the client. probing is true while a goroutine of Probe
	// runs.
	up, probing atomic.Bool

	// mu guards target, conn and gone. turn, a channel of capacity 1, is the lock for making a
	// connection: a goroutine sends to it to take the lock, and receives from it to release the
	// lock.
	mu     sync.Mutex
	turn   chan struct{}
	target state.Callback
	conn   *connection
	gone   bool
}

func newChannel(d *dialer, cred rpc.AuthBytes, protect Protect) *Channel {
	return &Channel{dialer: d, cred: cred, protect: protect, turn: make(chan struct{}, 1)}
}

// Up reports whether the latest call reached the client.
func (ch *Channel) Up() bool { return ch.up.Load() }

// Retarget sets the target of later calls. Up is false until a call has reached the new
// target.
func (ch *Channel) Retarget(t state.Callback) {
	ch.mu.Lock()
	var over *connection
	if ch.target != t {
		ch.target = t
		ch.up.Store(false)
		over = ch.giveUpLocked(ch.conn)
	}
	ch.mu.Unlock()
	over.closeIdle()
}

// close ends the channel: the client is gone.
func (ch *Channel) close() {
	ch.mu.Lock()
	ch.gone = true
	over := ch.giveUpLocked(ch.conn)
	ch.mu.Unlock()
	ch.up.Store(false)
	over.closeIdle()
}

// Probe finds out in the background whether the client can be reached. It does nothing if a
// probe is running.
func (ch *Channel) Probe() {
	if !ch.probing.CompareAndSwap(false, true) {
		return
	}
	if !ch.dialer.addWork() {
		ch.probing.Store(false)
		return
	}
	go func() {
		defer ch.dialer.work.Done()
		defer ch.probing.Store(false)
		ch.Null(ch.dialer.ctx)
	}()
}

// Null is CB_NULL: it checks that the client can be reached.
func (ch *Channel) Null(ctx context.Context) error {
	return ch.do(ctx, &rpc.Exchange{Procedure: wire.ProcCBNull}, nil, nil)
}

// Compound makes a CB_COMPOUND call of n operations. operations writes each operation, its number
// first; most is the limit of the size of all operations together, in bytes. If the client answers,
// Compound calls results with the status s of the compound, the number n of results, and a decoder
// d of the results. results returns an error only if it cannot decode the results.
func (ch *Channel) Compound(ctx context.Context, n, most int, operations func(w *xdr.Writer), results func(s wire.NFSStat4, n uint32, d *xdr.Decoder) error) error {
	x := &rpc.Exchange{Procedure: wire.ProcCBCompound, MaxArgs: 16 + most, MaxResults: maxCallbackReply}
	args := func(t *state.Callback, w *xdr.Writer) {
		w.String("") // tag
		w.Uint32(0)  // minor version
		w.Uint32(t.Ident)
		w.Uint32(uint32(n))
		operations(w)
	}
	return ch.do(ctx, x, args, func(d *xdr.Decoder) error {
		s := wire.NFSStat4(d.Int32())
		d.Opaque(maxCallbackReply)
		n := d.Uint32()
		if d.Err() != nil {
			return d.Err()
		}
		return results(s, n, d)
	})
}

// maxCallbackReply is the size of the longest reply to a callback, in bytes.
const maxCallbackReply = 4096

// do makes one call, within callTime, and stores in ch.up whether the call reached the client.
func (ch *Channel) do(ctx context.Context, x *rpc.Exchange, args func(t *state.Callback, w *xdr.Writer), decode func(d *xdr.Decoder) error) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	stop := context.AfterFunc(ch.dialer.ctx, cancel)
	defer stop()
	c, target, err := ch.acquire(ctx)
	if err != nil {
		ch.up.Store(false)
		return err
	}
	x.Program, x.Version = target.Program, wire.CallbackVersion
	x.Cred = ch.cred
	if args != nil {
		x.Args = func(w *xdr.Writer) { args(&target, w) }
	}
	err = rpc.Do(ctx, c.caller(), x, decode)
	ch.release(c, err == nil)
	ch.mu.Lock()
	if ch.target == target && !ch.gone {
		ch.up.Store(err == nil)
	}
	ch.mu.Unlock()
	return err
}

// acquire returns the connection for one call, and the target of the call. If there is no
// connection, acquire makes one. After the call, the caller calls release.
func (ch *Channel) acquire(ctx context.Context) (*connection, state.Callback, error) {
	select {
	case ch.turn <- struct{}{}:
		defer func() { <-ch.turn }()
	case <-ctx.Done():
		return nil, state.Callback{}, context.Cause(ctx)
	}
	ch.mu.Lock()
	t, c, gone := ch.target, ch.conn, ch.gone
	if c != nil {
		c.users++
	}
	ch.mu.Unlock()
	switch {
	case c != nil:
		return c, t, nil
	case gone:
		return nil, t, errGone
	case !t.Dial.IsValid():
		return nil, t, ErrNoAddress
	}
	c, err := ch.dialer.connect(ctx, &t, ch.protect)
	if err != nil {
		return nil, t, err
	}
	c.unwatch = context.AfterFunc(ch.dialer.ctx, func() { ch.retire(c, false) })
	ch.mu.Lock()
	if ch.gone || ch.target != t {
		c.over = true // no call but this one uses the connection
	}
	if !c.over {
		ch.conn = c
	}
	ch.mu.Unlock()
	return c, t, nil
}

// release ends one use of a connection, after a call. If the call failed (worked is false), no
// further call uses the connection.
func (ch *Channel) release(c *connection, worked bool) {
	ch.mu.Lock()
	c.users--
	var over *connection
	switch {
	case !worked || c.over:
		over = ch.giveUpLocked(c)
	case c.users == 0 && c.idle == nil:
		c.idle = time.AfterFunc(idleTime, func() { ch.retire(c, true) })
	case c.users == 0:
		c.idle.Reset(idleTime)
	}
	ch.mu.Unlock()
	over.closeIdle()
}

// retire closes a connection. If a call uses it, the last one closes it, or retire does nothing if
// idle is true.
func (ch *Channel) retire(c *connection, idle bool) {
	ch.mu.Lock()
	var over *connection
	if !c.over && (c.users == 0 || !idle) {
		over = ch.giveUpLocked(c)
	}
	ch.mu.Unlock()
	over.closeIdle()
}

// giveUpLocked marks c as no longer usable. If no call uses c, it returns c: the caller then closes
// c after it has released ch.mu. Otherwise it returns nil. c may be nil.
func (ch *Channel) giveUpLocked(c *connection) *connection {
	if c == nil {
		return nil
	}
	if ch.conn == c {
		ch.conn = nil
	}
	c.over = true
	if c.users > 0 {
		return nil
	}
	if c.idle != nil {
		c.idle.Stop()
	}
	return c
}
