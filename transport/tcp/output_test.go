package tcp

import (
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"testing/synctest"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// A drip stream takes as many bytes as allowed says, and no more until allowed is changed.
type drip struct {
	script
	may     chan struct{} // a value makes transmit write again
	allowed int
}

func (d *drip) tryWrite(bufs [][]byte, _ bool) (n int, err error) {
	for _, b := range bufs {
		k := min(len(b), d.allowed)
		d.allowed -= k
		if n += k; k < len(b) {
			return n, errAgain
		}
	}
	return n, nil
}

func (d *drip) transmit(ready func() bool) error {
	for ready() {
		if _, ok := <-d.may; !ok {
			return nil
		}
	}
	return nil
}

// withDrip runs a test with a connection whose stream takes nothing at first.
func withDrip(t *testing.T, f func(t *testing.T, c *conn, d *drip)) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{})
		s, _ := toyServer(t)
		defer s.Close()
		cfg := Config{RPC: s, Pool: b.pool}.withDefaults()
		d := &drip{may: make(chan struct{})}
		c := testConn(&cfg, b.pool, d)
		f(t, c, d)
		close(d.may)
		c.out.writers.Wait()
		c.out.shut()
		c.share.Close()
		if n := b.pool.Stats().Charged; n != 0 {
			t.Errorf("%d bytes are charged in the end", n)
		}
	})
}

// A lateStream is a waitingStream whose transmit, once there is nothing left to write, returns only
// after a value comes from end.
type lateStream struct {
	waitingStream
	end chan struct{}
}

func (s *lateStream) transmit(ready func() bool) error {
	return s.waitingStream.transmit(func() bool {
		more := ready()
		if !more {
			<-s.end
		}
		return more
	})
}

// A write to a stream without a descriptor blocks, so a goroutine of its own makes it, also while the
// goroutine of the write before is about to end. If receiving goroutines wrote, those of both sides
// could wait for each other, and neither would read. What is queued is sent, whenever the earlier
// goroutine ends.
func TestReceivingGoroutineNeverBlocksInAWrite(t *testing.T) {
	for _, apart := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, Config{})
			s, _ := toyServer(t)
			defer s.Close()
			cfg := Config{RPC: s, Pool: b.pool}.withDefaults()
			near, far := net.Pipe()
			st := &lateStream{waitingStream: waitingStream{nc: near}, end: make(chan struct{})}
			c := testConn(&cfg, b.pool, st)
			defer func() {
				c.out.shut()
				near.Close()
				c.share.Close()
			}()
			received := make([]byte, 2*markSize)
			write := func() (returned bool) {
				done := make(chan struct{})
				go func() {
					defer close(done)
					c.batched += c.batch.message(nil, make([]byte, 2*markSize), nil, nil)
					c.sendBatch()
					c.out.flush(apart)
				}()
				synctest.Wait()
				select {
				case <-done:
					return true
				default:
					return false
				}
			}
			if !write() {
				t.Fatal("the first write blocks")
			}
			if _, err := io.ReadFull(far, received); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // the first transmit has written all, and has not returned
			if !write() {
				t.Error("a write blocks while the earlier transmit ends")
			}
			st.end <- struct{}{}
			synctest.Wait()
			if _, err := io.ReadFull(far, received); err != nil {
				t.Fatal(err)
			}
			st.end <- struct{}{}
			c.out.writers.Wait()
		})
	}
}

// While replies wait for the peer, the list of their pieces is charged. When they are sent, the
// connection keeps no large list.
func TestOutputKeepsNoLargeLists(t *testing.T) {
	withDrip(t, func(t *testing.T, c *conn, d *drip) {
		const replies = 20_000
		payload := make([]byte, 1)
		size := 0
		for range replies {
			n := c.batch.message(nil, make([]byte, 2*markSize), []xdr.Payload{{Position: markSize, Data: payload}}, nil)
			size += n
			c.batched += n
		}
		c.sendBatch()
		c.out.flush(false)
		synctest.Wait()
		if n, least := c.cfg.Pool.Stats().Charged, int64(replies*3*pieceCost); n < least {
			t.Errorf("%d bytes are charged for lists of %d", n, least)
		}
		d.allowed = size
		d.may <- struct{}{}
		synctest.Wait()
		if n := c.out.queued.Load(); n != 0 {
			t.Fatalf("%d bytes still wait", n)
		}
		const most = 2 * keptPieces
		if q, done, batch, bufs := cap(c.out.queue), cap(c.out.done), cap(c.batch), cap(c.out.bufs); q > most || done > most || batch > most || bufs > most {
			t.Errorf("room for %d, %d and %d pieces and %d buffers is kept", q, done, batch, bufs)
		}
		if n := c.cfg.Pool.Stats().Charged; n != 0 {
			t.Errorf("%d bytes are charged for empty lists", n)
		}
	})
}

// A connection that waits until fewer bytes are queued goes on when a part of a piece is written. It
// needs no sweep.
func TestPartOfAPieceWakesTheConnection(t *testing.T) {
	withDrip(t, func(t *testing.T, c *conn, d *drip) {
		const size = 1 << 20
		c.batched += c.batch.message(nil, make([]byte, size), nil, nil)
		c.pause()
		went := make(chan struct{})
		go func() {
			c.until(func() bool { return c.out.queued.Load() <= size/2 })
			close(went)
		}()
		synctest.Wait()
		d.allowed = size / 2
		d.may <- struct{}{}
		synctest.Wait()
		select {
		case <-went:
		default:
			t.Error("half of the piece is written, and the connection waits")
			c.kill(nil)
			<-went
		}
	})
}

// Whatever is appended, written and taken back, the bytes that are queued and charged are those of the
// pieces in the queue.
func TestChargeIsOfWhatWaits(t *testing.T) {
	withDrip(t, func(t *testing.T, c *conn, d *drip) {
		o, random := &c.out, rand.New(rand.NewPCG(1, 0))
		var exchanges []*rpc.Exchange
		check := func(step string) {
			t.Helper()
			synctest.Wait()
			o.mu.Lock()
			defer o.mu.Unlock()
			queued := 0
			for _, p := range o.queue[o.head:] {
				queued += len(p.data)
			}
			if n := o.queued.Load(); n != int64(queued) {
				t.Errorf("%s: %d bytes are counted as queued, %d are", step, n, queued)
			}
			if heap := o.queue[o.head:].heap(); o.heap != heap {
				t.Errorf("%s: %d bytes are counted on the heap, %d are there", step, o.heap, heap)
			}
			if want := o.heap + cap(o.queue)*pieceCost; o.waits && o.owed != want {
				t.Errorf("%s: %d bytes are charged, %d wait", step, o.owed, want)
			}
		}
		for range 300 {
			switch random.IntN(4) {
			case 0, 1:
				x := new(rpc.Exchange)
				exchanges = append(exchanges, x)
				words := make([]byte, markSize+random.IntN(2*smallReply))
				payloads := []xdr.Payload{{Position: random.IntN(len(words) - markSize + 1), Data: make([]byte, random.IntN(9000))}}
				o.mu.Lock()
				o.appendLocked(nil, words, payloads, x)
				o.pushAndUnlock()
				check("appended")
			case 2:
				if n := int(o.queued.Load()); n > 0 {
					d.allowed = 1 + random.IntN(n)
					d.may <- struct{}{}
					check("written in part")
				}
			case 3:
				if len(exchanges) > 0 {
					o.takeBack(exchanges[random.IntN(len(exchanges))])
					check("taken back")
				}
			}
			if t.Failed() {
				break
			}
		}
		if n := int(o.queued.Load()); n > 0 {
			d.allowed = n
			d.may <- struct{}{}
			check("written")
		}
	})
}
