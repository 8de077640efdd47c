package tcp

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
)

// A Conn withstands the races of rpctest.Races. The test cuts connections by a shutdown of their
// sockets.
func TestRaces(t *testing.T) {
	f := start(t, Config{})
	rpctest.Races(t, func(t *testing.T) (rpc.Caller, func()) {
		var nc net.Conn
		c := f.dial(DialConfig{Dial: func(ctx context.Context, network, address string) (_ net.Conn, err error) {
			nc, err = new(net.Dialer).DialContext(ctx, network, address)
			return nc, err
		}})
		return c, func() { nc.(*net.TCPConn).CloseRead() }
	})
}

// If a connection ends while a call is being written, the call ends after the write.
func TestConnectionLostWhileACallIsWritten(t *testing.T) {
	c, peer := pair(t, DialConfig{})
	done := make(chan error, 1)
	x := &rpc.Exchange{Program: 100003, Version: 3, MaxArgs: 64, Done: func(x *rpc.Exchange) { done <- x.Err }}
	x.Args = func(w *xdr.Writer) {
		peer.Close()
		await.Receive(t, "the connection ends", c.Done())
		select {
		case <-done:
			t.Error("Done was called while Start writes the call")
			done <- nil
		default:
		}
		w.Uint32(1)
	}
	c.Start(x)
	if err := await.Receive(t, "the call ends", done); !errors.Is(err, rpc.ErrCallLost) {
		t.Errorf("the call ends with %v", err)
	}
}

// A reply, short or long, that comes before its call was sent is dropped as stray. A peer can send
// one, because XIDs count up by one. The call still waits for a reply that comes after it.
func TestAnswerBeforeTheCall(t *testing.T) {
	c, peer := pair(t, DialConfig{})
	answer := func(xid uint32, results int) {
		b := binary.BigEndian.AppendUint32(nil, 1<<31|uint32(24+results))
		for _, v := range []uint32{xid, 1, 0, 0, 0, 0} {
			b = binary.BigEndian.AppendUint32(b, v)
		}
		peer.Write(append(b, make([]byte, results)...))
	}
	next := func() (xid uint32) {
		var head [8]byte
		if _, err := io.ReadFull(peer, head[:]); err != nil {
			t.Error(err)
		}
		io.CopyN(io.Discard, peer, int64(binary.BigEndian.Uint32(head[:])&^(1<<31))-4)
		return binary.BigEndian.Uint32(head[4:])
	}
	done := make(chan error, 1)
	x := &rpc.Exchange{Program: 100003, Version: 3, MaxArgs: 64, Done: func(x *rpc.Exchange) { done <- x.Err }}
	c.Start(x)
	xid := next()
	answer(xid, 0)
	if err := await.Receive(t, "the first call ends", done); err != nil {
		t.Error(err)
	}
	x.Args = func(w *xdr.Writer) {
		for strays, results := range []int{0, 4 * ringRecord} {
			answer(xid+1, results)
			await.Until(t, "the answer is found to be no call's", func() bool { return c.n.stray.Load() == uint64(strays+1) })
		}
		w.Uint32(1)
	}
	c.Start(x)
	if n := next(); n != xid+1 {
		t.Errorf("XID %#x follows %#x", n, xid)
	}
	select {
	case err := <-done:
		t.Errorf("the call ends with %v, by an answer that came before it", err)
	default:
	}
	answer(xid+1, 0)
	if err := await.Receive(t, "the call ends", done); err != nil {
		t.Error(err)
	}
}

// A call that is cancelled while Start encodes its arguments ends after that, and is not sent.

func TestCancelWhileACallIsWritten(t *testing.T) {
	c, peer := pair(t, DialConfig{})
	done := make(chan error, 2)
	x := &rpc.Exchange{Program: 100003, Version: 3, MaxArgs: 64, Done: func(x *rpc.Exchange) { done <- x.Err }}
	x.Args = func(w *xdr.Writer) {
		var wg sync.WaitGroup
		for _, err := range []error{context.Canceled, context.Canceled} {
			wg.Go(func() { c.Cancel(x, err) })
		}
		wg.Wait()
		select {
		case <-done:
			t.Error("Done was called while Start writes the call")
		default:
		}
		w.Uint32(1)
	}
	c.Start(x)
	if err := await.Receive(t, "the call ends", done); err != context.Canceled {
		t.Errorf("the call ends with %v", err)
	}
	c.Close()
	if b, _ := io.ReadAll(peer); len(b) > 0 {
		t.Errorf("%d bytes were sent", len(b))
	}
}
