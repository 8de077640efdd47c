package soak

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A way is a client's connection to the daemon. It replaces a connection that is lost.
type way struct {
	target client.Target
	conn   *client.Conn
	// lost counts the connections that ended while a call had no answer.
	lost *atomic.Int64
	// again is true if the daemon may have executed an earlier attempt of the last call.
	again bool
}

// repeated reports whether the daemon may still execute an earlier attempt of the last call. The
// attempts are different calls for the daemon, because they have different XIDs.
func (w *way) repeated() bool { return w.again }

// comeBack is the time that a client waits before it replaces a lost connection, or repeats a
// call that the daemon asked it to repeat.
const comeBack = 50 * time.Millisecond

// do repeats a call until the daemon answers it with anything but a request to try again later. It
// passes again = true to call if the daemon may have executed an earlier attempt, whose connection
// was lost.
func (w *way) do(ctx context.Context, call func(conn *client.Conn, again bool) error) error {
	w.again = false
	for {
		err := w.connect(ctx)
		if err == nil {
			if err = call(w.conn, w.again); answered(err) {
				if !later(err) {
					return err
				}
			} else if ctx.Err() == nil {
				w.again = true
				w.lost.Add(1)
				w.Close()
			}
		}
		wait(ctx, comeBack)
		if ctx.Err() != nil {
			return fmt.Errorf("no answer in %v: %w", patience, err)
		}
	}
}

func (w *way) connect(ctx context.Context) (err error) {
	if w.conn == nil {
		w.conn, err = client.Dial(ctx, w.target)
	}
	return err
}

// Close ends the connection.
func (w *way) Close() {
	if w.conn != nil {
		w.conn.Close()
		w.conn = nil
	}
}

// answered reports whether a call with the result err got an answer from the daemon: success or
// an error.
func answered(err error) bool {
	if err == nil {
		return true
	}
	_, three := errors.AsType[*client.StatusError](err)
	_, four := errors.AsType[*client.OpError](err)
	_, mount := errors.AsType[*client.MountError](err)
	_, refused := errors.AsType[*rpc.ReplyError](err)
	return three || four || mount || refused || errors.Is(err, rpc.ErrBadReply) || errors.Is(err, errWrong)
}

// errWrong says that the content of an answer is wrong.
var errWrong = errors.New("wrong")

// statusOf returns the status of the daemon's answer. NFSv3 and NFSv4 have the same numbers for
// the statuses that the clients check.
func statusOf(err error) nfs4wire.NFSStat4 {
	if e, ok := errors.AsType[*client.StatusError](err); ok {
		return nfs4wire.NFSStat4(e.Status)
	}
	return client.StatusOf(err)
}

// later reports whether the daemon asked the client to try again later.
func later(err error) bool {
	if err == nil {
		return false
	}
	switch statusOf(err) {
	case nfs4wire.NFSStat4(nfs3wire.NFS3ErrJukebox), nfs4wire.NFS4ErrGrace:
		return true
	case nfs4wire.NFS4ErrResource: // NFSv4.0 clients get it when hoarders have the honest clients' address
		return true
	}
	return false
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
