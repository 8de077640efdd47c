package tcp

import (
	"net"
	"testing"
	"testing/synctest"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// A slowConn is a net.Conn without a descriptor. Its Writes end when end is closed.
type slowConn struct {
	net.Conn
	end chan struct{}
}

func (s *slowConn) Write(b []byte) (int, error) {
	<-s.end
	return len(b), nil
}

// Cancel waits until no write reads the exchange's memory any more, also while the connection ends:
// after Done the memory is the caller's again.
func TestCancelWhileTheConnectionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()
		slow := &slowConn{near, make(chan struct{})}
		cfg := Config{}.withDefaults()
		c := newConn(&cfg, new(counters), &waitingStream{nc: slow}, nil, new(rpc.Conn))
		x := exchange(rpctest.PUT, func(w *xdr.Writer) {
			w.String("name")
			w.Payload(make([]byte, 4096), true, nil)
		})
		done := make(chan struct{})
		x.Done = func(*rpc.Exchange) { close(done) }
		c.caller.Start(x)
		synctest.Wait() // the writer is in its write
		c.kill(errClosing)
		c.out.shut()
		go c.caller.Cancel(x, errClosing)
		synctest.Wait()
		select {
		case <-done:
			t.Error("Done was called while a write reads the memory")
		default:
		}
		close(slow.end)
		<-done
		c.out.writers.Wait()
	})
}
