package rdma

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// Neither end sends a message that is not permitted, each message finds a receive, and each call is answered, in
// parts or not (V2-8, V2-9, V2-11). That holds whatever the windows of both ends are, in whatever order messages arrive
// and calls are answered, and whenever memory is short.
func TestCreditsModel(t *testing.T) {
	defer setPatience(time.Hour)()
	const ceiling = 4 << 20
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 2))
		client, server := 2+r.IntN(12), 2+r.IntN(12)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			ends := newModel(t, client, server)
			isFull := false
			for range 400 {
				e := ends[r.IntN(2)]
				switch r.IntN(8) {
				case 0, 1:
					e.call(4 * (1 + r.IntN(1200)))
				case 2, 3:
					e.answer(r.IntN(64), 4*(1+r.IntN(2400)))
				case 4:
					if r.IntN(4) == 0 {
						isFull = !isFull
						ends[1].full.Add(map[bool]int{true: ceiling, false: -ceiling}[isFull])
					}
				default:
					e.deliver()
				}
			}
			for busy, n := true, 0; busy; n++ {
				busy = false
				for _, e := range ends {
					for e.deliver() || e.answer(0, 4*(1+r.IntN(2400))) {
						busy = true
					}
				}
				if n == 10000 {
					t.Error("messages go to and fro without an end")
					break
				}
			}
			for _, e := range ends {
				e.quiet()
			}
			if isFull {
				ends[1].full.Add(-ceiling)
			}
		})
	}
}

// The same with goroutines that call, answer and deliver at the same time, and another one that takes the client's
// memory away and gives it back.
func TestCreditsOfManyGoroutines(t *testing.T) {
	defer setPatience(time.Hour)()
	const calls, ceiling = 300, 4 << 20
	for _, windows := range [][2]int{{2, 2}, {2, 9}, {9, 2}, {70, 16}} {
		ends := newModel(t, windows[0], windows[1])
		over := make(chan struct{})
		var working, starting sync.WaitGroup
		for i, e := range ends {
			sizes := rand.New(rand.NewPCG(uint64(i), 3))
			starting.Go(func() {
				for n := 0; n < calls; {
					if e.call(4 * (1 + sizes.IntN(1200))) {
						n++
					}
					pause(over)
				}
			})
			working.Go(func() {
				for e.deliver() || !pause(over) {
				}
			})
			of := rand.New(rand.NewPCG(uint64(i), 4))
			working.Go(func() {
				for e.answer(of.IntN(64), 4*(1+of.IntN(2400))) || !pause(over) {
				}
			})
		}
		working.Go(func() {
			for !pause(over) {
				ends[1].full.Add(ceiling)
				pause(over)
				ends[1].full.Add(-ceiling)
			}
		})
		starting.Wait()
		await.Until(t, "all calls are answered", func() bool {
			for _, e := range ends {
				e.mu.Lock()
				n := len(e.open) + len(e.arriving)
				e.mu.Unlock()
				if n > 0 {
					return false
				}
			}
			return true
		})
		close(over)
		working.Wait()
		for range 4 { // what the last answers have caused
			for _, e := range ends {
				for e.deliver() {
				}
			}
		}
		for _, e := range ends {
			e.quiet()
		}
	}
}

// A client whose calls occupy too much memory is permitted few more calls, but nothing that it was told before is taken
// back, and its calls in parts go on. Afterwards it is permitted as many as before.
func TestFullClientOfVersion2(t *testing.T) {
	const credits, ceiling = 60, 4 << 20
	b := newBench(t, benchConfig{pool: mem.Config{Ceiling: ceiling}, server: Config{Version2: true, Credits: credits}})
	p := b.peer2()
	p.open()
	xid := uint32(0)
	null := func() {
		t.Helper()
		xid++
		before := p.permits
		p.send(call2(xid, rpctest.NULL))
		q, m := p.next()
		for q.Type == wire.TypeGrant { // the call before has ended after its answer had come
			q, m = p.next()
		}
		if q.XID != xid || q.Type != wire.TypeReplyInline {
			t.Fatalf("NULL is answered by % x", m)
		}
		if int32(p.permits-before) < 0 {
			t.Fatalf("the limit falls from %d to %d", before, p.permits)
		}
	}
	for p.permits-p.sent < credits {
		null()
	}
	others := b.pool.OpenShare(clientaddr.Of(p.p.Conn().Local().Addr()), nil)
	defer others.Close()
	var kept mem.Ledger
	kept.Open(others)
	kept.Add(ceiling)
	for p.permits-p.sent > mem.LeastCalls {
		null()
	}
	for range 3 {
		null()
	}
	if n := p.permits - p.sent; n != mem.LeastCalls {
		t.Errorf("%d messages are permitted", n)
	}
	call := echo(0x777, 9000)
	for _, m := range inParts(0x777, call, 1000) {
		for p.sent == p.permits {
			if q, m := p.next(); q.Type != wire.TypeGrant {
				t.Fatalf("the server sends % x", m[:min(len(m), 40)])
			}
		}
		p.send(m)
	}
	stream, _ := p.whole(0x777)
	results(t, 0x777, stream)
	kept.Add(-ceiling)
	null()
	if n := p.permits - p.sent; n != credits {
		t.Errorf("%d messages are permitted", n)
	}
}

// A call in parts waits for as many credits as it has parts, while answers are to come. A call that waits does not
// hold up the answer to a call of the server.
func TestCallInPartsWaitsForCredits(t *testing.T) {
	back, _ := callbacks(t)
	s, _ := newScript2(t, DialConfig{Callbacks: back}, accepts2(4)) // the proposal and three messages
	one := s.start(null())
	q, _ := s.next2()
	x := exchangeFor(rpctest.ECHO, func(w *xdr.Writer) { w.Opaque(pattern(9000)) })
	x.MaxArgs = 9008
	long := s.start(x)
	s.sendRaw(permits(call2(5, rpctest.NULL), 4))
	if q, m := s.next2(); q.XID != 5 || q.Type != wire.TypeReplyInline {
		t.Fatalf("the client sends % x", m[:min(len(m), 40)])
	}
	s.reply2(q.XID, 5) // now nothing else is to come
	ended(t, one)
	for range 2 {
		if q, m := s.next2(); q.Type != wire.TypeCallMiddle {
			t.Fatalf("the client sends % x", m[:min(len(m), 40)])
		}
	}
	s.sendRaw(permits(message2(wire.TypeGrant, 0, nil, nil), 7))
	q, _ = s.next2()
	if q.Type != wire.TypeCallInline {
		t.Fatalf("the client sends %v", q.Type)
	}
	s.reply2(q.XID, 9)
	ended(t, long)
}
