package tcp

import "github.com/nfsrdmad/nfsrdmad/rpc"

// oneAtATime is how many calls in a row have to come alone before the receiving goroutine runs
// one that blocks. Each time that the goroutine comes back from one, and its peer's next call is
// there already, speaks for a peer that does not wait for replies. After so many such times in
// a row as mistakes says, it takes leastDoubt more calls, and twice as many after each further
// one, mostDoubt at most. Each time that there is none makes that half of it.
const (
	oneAtATime            = 4
	mistakes              = 4
	leastDoubt, mostDoubt = 8, 512
)

// lending is what a receiver has to run calls that block itself: see rpc.Turn. Its peer makes
// one call at a time, so that there is no other for which the goroutine is missed.
type lending struct {
	lender rpc.Lender // its Replace is nil where the goroutine only receives
	// turn is the call that the goroutine has to run now; resumed: it comes back from one.
	turn    *rpc.Turn
	resumed bool
	// more says that the last read left some input, emptied how many records there were when
	// none was left between two of them. alone is how many calls in a row came alone, less what
	// doubt has taken off; wrong how often in a row the next call was there already.
	more                bool
	emptied             uint64
	alone, doubt, wrong int
}

// mistaken takes note of a call that was there when the goroutine came back.
func (l *lending) mistaken() {
	if l.wrong++; l.wrong >= mistakes {
		l.doubt = min(max(2*l.doubt, leastDoubt), mostDoubt)
		l.alone = -l.doubt
	}
}

// right takes note that there was none.
func (l *lending) right() { l.wrong, l.doubt = 0, l.doubt/2 }

// serve serves a call that is all here.
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

// receives is what the receiving goroutine does until there will be no more input. If it
// ran a call meanwhile that took long, over is false, and it is not the receiving one any more.
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

// leaves prepares the connection for another goroutine, or for this one when it has run the
// call.
func (c *conn) leaves() {
	c.drained()
	c.resumed = true
}

// resume takes the connection up where leaves left it. For busypoll the goroutine has not
// rested in between, unless it is not to poll now.
func (c *conn) resume() {
	c.resumed = false
	if c.begins() {
		return
	}
	c.doing.Store(atWork)
	c.out.hold()
	c.member.Rest()
	c.member.Wake()
}

// readFirst is the first read after resume. What came before the goroutine waits again is not
// reported to it, so that it reads before it waits in any way.
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
		c.doing.Store(atWork)
		c.out.hold()
	}
	return n, more, err
}
