package rdmatest

import (
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

var sendRules = []rule{
	{"AnySize", sendSizes},
	{"GathersPieces", both(sendGathers)},
	{"FromMemoryOfAnyKind", both(sendAnyMemory)},
	{"InOrder", both(sendInOrder)},
	{"AsManyAsPromised", both(sendAsPromised)},
	{"BeyondThePromiseEndsTheConnection", both(sendBeyondPromise)},
	{"NothingPromised", sendNothingPromised},
	{"LongerThanPromisedEndsTheConnection", both(sendTooLong)},
	{"MessagesStayUntilReleased", sendKept},
	{"PostFromReceived", sendFromReceived},
	{"PostFromDone", both(sendFromDone)},
	{"FlushLetsPostsOut", sendFlush},
	{"UnsentCountsSendsNotOnTheNetwork", both(sendUnsent)},
	{"ShortOnesAndChainsKeepTheirOrder", both(sendShort)},
	{"ShortOnesFromReceived", sendShortFromReceived},
	{"ShortOnesBeforeAnOrderlyEnd", both(sendShortThenLeave)},
	{"NoShortOnesAfterTheEnd", both(sendShortAfterEnd)},
}

func sendSizes(s *suite) {
	limit := 1 << 20
	param := common()
	param.ReceiveSize = limit
	a, b := s.pair(param, param)
	for _, p := range [][2]*Peer{{a, b}, {b, a}} {
		for i, n := range s.sizes(min(limit, p[0].Conn().Limits().MaxSend)) {
			m := pattern(i, n)
			p[1].Promise(1)
			s.noError(p[0].Send(m))
			s.same(fmt.Sprintf("message of %d bytes", n), p[1].Receive().Bytes, m)
		}
	}
}

// sendAnyMemory sends bytes from Go's heap, from the arena of payload memory and from a
// mapping, at odd addresses. It also reads into such memory by RDMA Read.
func sendAnyMemory(s *suite, a, b *Peer) {
	const size = 300
	pool, err := mem.NewPool(mem.Config{Ceiling: 4 << 20})
	s.noError(err)
	s.Cleanup(pool.Close)
	share := pool.NewShare()
	s.Cleanup(share.Close)
	inArena, ok := share.TryGet(2 * size)
	if !ok {
		s.Fatal("the pool is empty")
	}
	s.Cleanup(inArena.Release)
	mapping, err := unix.Mmap(-1, 0, 2*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	s.noError(err)
	s.Cleanup(func() { unix.Munmap(mapping) })

	var local [][]byte
	for _, memory := range [][]byte{make([]byte, 2*size), inArena.Bytes(), mapping} {
		local = append(local, memory[1:][:size], memory[1+size:][:3])
	}
	remote := pattern(1, 3*(size+3))
	region := b.Expose(remote, rdmacm.RemoteRead|rdmacm.RemoteWrite)
	s.ok(a.Do(rdmacm.Work{Op: rdmacm.OpRead, Local: local, Remote: At(region, 0)}))
	b.Promise(1)
	s.ok(a.Do(rdmacm.Work{Op: rdmacm.OpSend, Local: local}))
	s.same("message", b.Receive().Bytes, remote)
	clear(remote)
	s.ok(a.Do(rdmacm.Work{Op: rdmacm.OpWrite, Local: local, Remote: At(region, 0)}))
	s.lives(a, b)
	s.same("memory", remote, pattern(1, len(remote)))
}

func sendUnsent(s *suite, a, b *Peer) {
	const n = 50
	s.promise(b, a, n)
	var last <-chan Outcome
	for i := range n {
		last = a.Post(SendOf(pattern(i, 100)))
	}
	s.ok(a.await(last))
	if k := a.Conn().Unsent(); k != 0 {
		s.Errorf("%d Sends are unsent that came back", k)
	}
	region := b.Expose(make([]byte, 100), rdmacm.RemoteWrite)
	s.ok(a.Do(WriteOf(At(region, 0), []byte("no Send"))))
	for range n {
		b.Receive()
	}
	b.Conn().Abort(nil)
	a.Post(SendOf([]byte("to nobody")))
	a.End()
	b.End()
	if k := a.Conn().Unsent(); k != 0 {
		s.Errorf("%d Sends are unsent after the end", k)
	}
}

func sendGathers(s *suite, a, b *Peer) {
	m := pattern(1, 4000)
	for pieces := 1; pieces <= min(8, a.Conn().Limits().MaxLocal); pieces++ {
		var local [][]byte
		rest := m
		for i := range pieces - 1 {
			local = append(local, rest[:i*13])
			rest = rest[i*13:]
		}
		local = append(local, rest)
		b.Promise(1)
		s.ok(a.Do(SendOf(local...)))
		s.same(fmt.Sprintf("message of %d pieces", pieces), b.Receive().Bytes, m)
	}
	b.Promise(1)
	s.ok(a.Do(SendOf()))
	s.same("message of no pieces", b.Receive().Bytes, nil)
}

func sendInOrder(s *suite, a, b *Peer) {
	const n = 200
	s.promise(b, a, n)
	var last <-chan Outcome
	for i := range n {
		last = a.Post(SendOf(pattern(i, i*17%4096)))
	}
	s.ok(a.await(last))
	for i := range n {
		s.same(fmt.Sprintf("message %d", i), b.Receive().Bytes, pattern(i, i*17%4096))
	}
}

func sendAsPromised(s *suite, a, b *Peer) {
	b.Promise(3)
	s.promise(b, a, 5)
	for i := range 16 + 3 + 5 {
		s.noError(a.Send([]byte{byte(i)}))
	}
	for i := range 16 + 3 + 5 {
		s.same("message", b.Receive().Bytes, []byte{byte(i)})
	}
	s.promise(b, a, 1)
	s.lives(a, b)
}

func sendBeyondPromise(s *suite, a, b *Peer) {
	for range 16 + 1 {
		a.Post(SendOf([]byte("one")))
	}
	s.killedUnless(rdmacm.FaultIsNotNamed, a)
	s.killedUnless(rdmacm.FaultLooksOrderly, b)
	if n := len(b.Messages()); n > 16 {
		s.Fatalf("%d messages received where 16 were promised", n)
	}
}

func sendNothingPromised(s *suite) {
	param := common()
	param.Receives = 0
	a, b := s.pair(common(), param)
	s.noError(b.Send([]byte("the other direction works")))
	a.Receive()
	a.Post(SendOf(nil))
	s.killedUnless(rdmacm.FaultIsNotNamed, a)
	s.killedUnless(rdmacm.FaultLooksOrderly, b)
	if len(b.Messages()) != 0 {
		s.Fatal("an empty message needs a receive too")
	}
}

func sendTooLong(s *suite, a, b *Peer) {
	s.noError(a.Send(pattern(1, 4096)))
	b.Receive()
	a.Post(SendOf(pattern(1, 4097)))
	s.killedUnless(rdmacm.FaultIsNotNamed, a)
	s.killed(b)
	if len(b.Messages()) != 1 {
		s.Fatal("a message longer than promised is handed over")
	}
}

// A message belongs to the receiver until the receiver releases it. The receiver may release
// messages in any order, from any goroutine, and also after the end of the connection.
func sendKept(s *suite) {
	const n = 64
	var mu sync.Mutex
	var kept []*rdmacm.Recv
	all := make(chan struct{})
	param := common()
	param.Receives = n
	param.Received = func(p *Peer, r *rdmacm.Recv) {
		mu.Lock()
		defer mu.Unlock()
		if kept = append(kept, r); len(kept) == n {
			close(all)
		}
	}
	a, b := s.pair(common(), param)
	for i := range n {
		a.Post(SendOf(pattern(i, 4096-i)))
	}
	within(s.T, "all messages arrive", all)
	a.Conn().Disconnect()
	b.Conn().Disconnect()
	a.End()
	b.End()
	var wg sync.WaitGroup
	for i, r := range kept {
		s.same(fmt.Sprintf("kept message %d", i), r.Bytes, pattern(i, 4096-i))
	}
	for i := range kept {
		wg.Go(kept[len(kept)-1-i].Release)
	}
	wg.Wait()
}

// A receiver may answer a message from within Received. The test sends many messages, and the
// other side sends each of them back.
func sendFromReceived(s *suite) {
	const n, depth = 500, 16
	echo := common()
	echo.Received = func(p *Peer, r *rdmacm.Recv) {
		p.Promise(1)
		p.Conn().Post(&rdmacm.Chain{
			Work: []rdmacm.Work{SendOf(r.Bytes)},
			Done: func(*rdmacm.Chain, error, int) { r.Release() },
		})
	}
	a, _ := s.pair(common(), echo)
	for i := range depth {
		a.Post(SendOf([]byte{byte(i)}))
	}
	for i := range n {
		m := a.Receive()
		s.same("answer", m.Bytes, []byte{byte(i)})
		if i+depth < n {
			a.Promise(1)
			a.Post(SendOf([]byte{byte(i + depth)}))
		}
	}
}

// Done may post the next chain. With a ReadDepth of 1, a user can thus read one piece after the
// other.
func sendFromDone(s *suite, a, b *Peer) {
	const n = 100
	src := pattern(1, n*64)
	region := b.Expose(src, rdmacm.RemoteRead)
	got := make([]byte, len(src))
	depth := a.Conn().ReadDepth()
	left := make(chan error, n)
	var post func(i int)
	post = func(i int) {
		if i >= n {
			return
		}
		a.Conn().Post(&rdmacm.Chain{
			Work: []rdmacm.Work{ReadOf(At(region, i*64), got[i*64:(i+1)*64])},
			Done: func(_ *rdmacm.Chain, err error, _ int) {
				post(i + depth)
				left <- err
			},
		})
	}
	for i := range depth {
		post(i)
	}
	for range n {
		s.noError(within(s.T, "a Read comes back", left))
	}
	s.same("memory read", got, src)
}

// Flush sends the posts of a handler that has not returned from Received yet.
func sendFlush(s *suite) {
	hold := make(chan struct{})
	release := sync.OnceFunc(func() { close(hold) })
	s.Cleanup(release)
	param := common()
	param.Received = func(p *Peer, r *rdmacm.Recv) {
		p.Post(SendOf([]byte("early")))
		p.Conn().Flush()
		<-hold
		r.Release()
	}
	a, b := s.pair(common(), param)
	s.noError(a.Send([]byte("ask")))
	s.same("answer", a.Receive().Bytes, []byte("early"))
	release()
	b.Conn().Disconnect()
	a.Conn().Disconnect()
}

// short sends b by SendShort and then overwrites b. If the device does not take b this way,
// short sends it by a chain.
func (p *Peer) short(b []byte) {
	if p.Conn().SendShort([][]byte{b[:len(b)/2], b[len(b)/2:]}, 0) {
		clear(b)
		return
	}
	p.Post(SendOf(b))
}

func sendShort(s *suite, a, b *Peer) {
	const n = 600
	s.promise(b, a, n)
	size := func(i int) int { return i * 17 % 700 }
	for i := range n {
		if i%7 == 3 {
			a.Post(SendOf(pattern(i, size(i))))
		} else {
			a.short(pattern(i, size(i)))
		}
	}
	for i := range n {
		s.same(fmt.Sprintf("message %d", i), b.Receive().Bytes, pattern(i, size(i)))
	}
	if a.Conn().Limits().RemoteInvalidation {
		region := b.Expose(make([]byte, 100), rdmacm.RemoteWrite)
		if a.Conn().SendShort([][]byte{[]byte("done")}, region.STag()) {
			if m := b.Receive(); m.Invalidated != region.STag() {
				s.Errorf("%#x is invalidated, not %#x", m.Invalidated, region.STag())
			}
		}
	}
	s.lives(a, b)
}

// A receiver answers every 50th message by a chain, and the others by SendShort. More messages
// are under way than the device takes at a time.
func sendShortFromReceived(s *suite) {
	const n, depth = 2000, 500
	echo := common()
	echo.Receives = depth
	var count int
	echo.Received = func(p *Peer, r *rdmacm.Recv) {
		p.Promise(1)
		answer := slices.Clone(r.Bytes)
		r.Release()
		if count++; count%50 == 0 {
			p.Post(SendOf(answer))
			return
		}
		p.short(answer)
	}
	param := common()
	param.Receives = depth
	a, _ := s.pair(param, echo)
	for i := range depth {
		a.short(pattern(i, 100))
	}
	for i := range n {
		s.same("answer", a.Receive().Bytes, pattern(i, 100))
		if i+depth < n {
			a.Promise(1)
			a.short(pattern(i+depth, 100))
		}
	}
}

// Messages that SendShort took before Disconnect still arrive.
func sendShortThenLeave(s *suite, a, b *Peer) {
	const n = 100
	s.promise(b, a, n)
	for i := range n {
		a.short(pattern(i, 100))
	}
	a.Conn().Disconnect()
	for i := range n {
		s.same("message", b.Receive().Bytes, pattern(i, 100))
	}
	b.Conn().Disconnect()
	s.noError(a.End())
	s.noError(b.End())
}

func sendShortAfterEnd(s *suite, a, b *Peer) {
	a.Conn().Abort(nil)
	a.End()
	if a.Conn().SendShort([][]byte{[]byte("late")}, 0) {
		s.Error("a Send is taken after the end")
	}
	b.End()
}
