package iwarp

import (
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/rawpeer"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
	"github.com/nfsrdmad/nfsrdmad/test/await"
)

// A slowSocket makes the sender of each batch wait until the test lets it continue.
type slowSocket struct {
	syscall.RawConn
	before bool          // the sender waits before TCP takes the batch, and not after it
	kept   chan struct{} // the sender is waiting
	goOn   chan struct{}
}

func (s *slowSocket) Write(f func(fd uintptr) bool) error {
	if s.before {
		s.keep()
	}
	err := s.RawConn.Write(f)
	if !s.before {
		s.keep()
	}
	return err
}

func (s *slowSocket) keep() {
	s.kept <- struct{}{}
	<-s.goOn
}

// slowAnswers is a connection with a slowSocket. Its peer requests RDMA Reads. Its sender is not
// the receiving goroutine.
type slowAnswers struct {
	*side
	raw    *rawpeer.Peer
	slow   *slowSocket
	letGo  func() // lets the sender continue for good
	region rdmacm.Region
	memory []byte
}

// answeringSlowly returns a connection whose sender is waiting in the slowSocket, with a batch of
// as many Responses as were agreed on. A Send went out before that.
func answeringSlowly(t *testing.T, before bool) *slowAnswers {
	t.Helper()
	// LingerTimeout is long, so that the peer can read up to a Terminate.
	raw, s := passive(t, Config{LingerTimeout: time.Minute})
	a := &slowAnswers{side: s, raw: raw, memory: []byte("memory")}
	a.slow = &slowSocket{before: before, kept: make(chan struct{}, 100), goOn: make(chan struct{})}
	a.letGo = sync.OnceFunc(func() { close(a.slow.goOn) })
	t.Cleanup(a.letGo)
	a.region = s.expose(a.memory, rdmacm.RemoteRead)
	s.on(func(r *rdmacm.Recv) { // runs on the receiving goroutine, which uses raw, too
		a.slow.RawConn = s.raw
		s.raw = a.slow
		s.hook.Store(nil)
		r.Release()
		s.received <- nil
	})
	raw.WriteFPDU(raw.Send(nil))
	wait(t, s.received)
	free := func() bool {
		s.tx.mu.Lock()
		defer s.tx.mu.Unlock()
		return !s.tx.held
	}
	// If the receiver were still busy, the receiving goroutine would send the work that is posted
	// now.
	await.Until(t, "the receiver is through with the message", free)
	posted := make(chan struct{})
	go func() {
		defer close(posted)
		post(s.Conn, send([]byte("first")))
	}()
	t.Cleanup(func() { a.letGo(); wait(t, posted) })
	wait(t, a.slow.kept)
	a.ask(s.agreed.IRD)
	wait(t, s.received)
	await.Until(t, "the sender has the answers to send", free)
	a.slow.goOn <- struct{}{}
	wait(t, a.slow.kept)
	return a
}

// ask makes the peer send n Read Requests, and a Send after them.
func (a *slowAnswers) ask(n int) {
	var all [][]byte
	for range n {
		all = append(all, a.raw.ReadRequest(wire.Read{Size: uint32(len(a.memory)), SourceSTag: a.region.STag(), SourceOffset: a.region.Offset()}))
	}
	a.raw.WriteFPDU(append(all, a.raw.Send(nil))...)
}

// answered makes the peer read as many Responses as were agreed on.
func (a *slowAnswers) answered() {
	a.t.Helper()
	for range a.agreed.IRD {
		if _, m := a.raw.ReadMessage(wire.ReadResponse); string(m) != string(a.memory) {
			a.t.Errorf("read %q", m)
		}
	}
}

// IW-42: a peer that has received the whole Response may send its next Read Request, even if the
// sender is still in the system call that sent the Response.
func TestReadsBehindASlowSender(t *testing.T) {
	a := answeringSlowly(t, false)
	a.raw.ReadOp(wire.Send)
	a.answered()
	a.ask(a.agreed.IRD)
	await.Until(t, "the Read Requests are judged", func() bool { return len(a.received) > 0 || a.life.faulty.Load() })
	if a.life.faulty.Load() {
		t.Error("a Read Request within the depth is a fault")
	}
	a.letGo()
	a.answered()
}

// IW-31, IW-77: if TCP takes nothing, as many Reads as were agreed on may wait in addition to
// those in the batch. One more is a fault.
func TestReadsBehindASenderThatIsStuck(t *testing.T) {
	a := answeringSlowly(t, true)
	a.ask(a.agreed.IRD + 1)
	await.Until(t, "the Read Requests are judged", func() bool { return len(a.received) > 0 || a.life.faulty.Load() })
	if n := int(a.tx.answering.Load()); n != a.agreed.IRD {
		t.Errorf("%d Reads wait, and %d were agreed on", n, a.agreed.IRD)
	}
	a.letGo()
	a.raw.ReadOp(wire.Send)
	a.answered()
	a.raw.ReadTerminate(wire.RDMAPStream)
	a.raw.Conn.Close()
	a.terminated(wire.RDMAPStream, false)
}

// Disconnect sends the Responses that are built but not sent, before it closes this side's half
// of the connection.
func TestDisconnectBehindASlowSender(t *testing.T) {
	a := answeringSlowly(t, true)
	a.Disconnect()
	a.letGo()
	a.raw.ReadOp(wire.Send)
	a.answered()
	a.raw.ReadEOF()
	a.raw.Conn.Close()
	if err := a.ended(); err != nil {
		t.Errorf("closed with %v", err)
	}
}
