package tcp

import "github.com/nfsrdmad/nfsrdmad/rpc"

// A call that may block runs on the receiving goroutine only if the peer makes one call at a time:
// this call and at least the oneAtATime calls before it came alone, that is, with no other call
// waiting or under way. If the peer's next call is already there when such a call has ended, it was a
// mistake to run the call there, because the peer does not wait for replies. After 4 mistakes in a
// row, leastDoubt additional calls have to come alone before the goroutine runs a call again. Each
// further mistake in the row doubles this number, up to mostDoubt. If the next call is not there yet,
// the row ends, and the number is halved.
const (
	oneAtATime            = 4
	mistakes              = 4
	leastDoubt, mostDoubt = 8, 512
)

// lending is the part of a receiver for running calls that may block (rpc.Turn).
type lending struct {
	lender rpc.Lender // Replace is nil if the goroutine may only receive
	// turn is the call that the goroutine must run now, or nil. resumed is true from a call of
	// leaves to the next call of resume. In between the goroutine runs the call, unless another
	// goroutine replaces it.
	turn    *rpc.Turn
	resumed bool
	// more is true if the last read did not read all input. emptied is the number of records that had
	// begun when the input was last used up and no record was incomplete. alone is the number of
	// calls in a row that came alone. wrong is the number of mistakes in a row. From the fourth on,
	// each sets alone to -doubt.
	more                bool
	emptied             uint64
	alone, doubt, wrong int
}

// mistaken notes that it was a mistake (see oneAtATime) to run a call on the receiving goroutine.
func (l *lending) mistaken() {
	if l.wrong++; l.wrong >= mistakes {
		l.doubt = min(max(2*l.doubt, leastDoubt), mostDoubt)
		l.alone = -l.doubt
	}
}

// right notes that it was no mistake.
func (l *lending) right() { l.wrong, l.doubt = 0, l.doubt/2 }

// serve serves a complete call. If this goroutine has to run the call because the call may block,
// serve only stores it in c.turn.
func (c *conn) serve(k *call) {
	if c.more || c.r != c.w || c.records.Load()-c.emptied != 1 || c.inFlight.Load() > 0 {
		c.alone = min(c.alone, 0)
	} else {
		c.alone++
	}
	if c.alone <= oneAtATime || c.lender.Replace == nil {
		c.rpc.Serve(&k.Call)
		return
	}
	c.turn = c.rpc.ServeOrLend(&k.Call, &c.lender)
}

// receives reads and serves the connection's input to its end. If a call runs on this goroutine for a
// long time, another goroutine continues to receive; over is then false at the end of that call.
func (c *conn) receives() (over bool, err error) {
	for {
		err = c.stream.receive(c.ready)
		t := c.turn
		if t == nil {
			return true, err
		}
		c.turn = nil
		if t.Run() {
			return false, nil
		}
	}
}

// leaves sends the replies and gives the ring back, before the goroutine runs a call that may block.
// After that, resume continues the connection, on this goroutine or on one that replaces it.
func (c *conn) leaves() {
	c.drained()
	c.resumed = true
}

// resume continues the connection. If the goroutine may not poll for the next call, resume calls Rest
// and Wake of c.member, as if the goroutine had waited in the runtime's poller in between.
func (c *conn) resume() {
	c.resumed = false
	if c.begins() {
		return
	}
	c.work()
	c.member.Rest()
	c.member.Wake()
}

// readFirst is the first read after resume. It reads before the goroutine waits, because the
// runtime does not report input that came before the wait.
func (c *conn) readFirst(space []byte, direct bool) (n int, more bool, err error) {
	if n, more, err = c.read(space, direct); err == errAgain {
		c.right()
		if c.member.Polls() {
			return c.poll(space, direct)
		}
		return n, more, err
	}
	c.mistaken()
	if c.member.Polls() {
		c.member.End(true)
		c.work()
	}
	return n, more, err
}
