package rdmatest

import (
	"errors"
	"fmt"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

var taggedRules = []rule{
	{"WriteAnySize", both(taggedWriteSizes)},
	{"WriteGathersPieces", both(taggedWriteGathers)},
	{"WriteTouchesNothingElse", both(taggedWriteExact)},
	{"WritesArePlacedBeforeTheSend", both(taggedWriteThenSend)},
	{"ReadAnySize", both(taggedReadSizes)},
	{"ReadScattersPieces", both(taggedReadScatters)},
	{"ReadsUpToTheDepth", both(taggedReadDepth)},
	{"ReadBeyondTheDepthFailsItsChain", both(taggedReadTooDeep)},
	{"ReadDepthOne", with(oneRead(), taggedReadsInTurn)},
	{"ChainsOfAllKinds", both(taggedMixed)},
	{"EmptyChain", both(taggedEmptyChain)},
	{"ZeroLengthWriteNeedsNoSTag", both(taggedZeroWrite)},
	{"DoneInOrder", both(taggedDoneInOrder)},
}

func oneRead() PeerParam {
	p := common()
	p.InboundReads, p.OutboundReads = 1, 1
	return p
}

func taggedWriteSizes(s *suite, a, b *Peer) {
	for i, n := range s.sizes(8 << 20) {
		memory, want := make([]byte, n), pattern(i, n)
		region, err := b.Conn().Register(memory, rdmacm.RemoteWrite)
		if err != nil && n == 0 && s.lacks(b, rdmacm.NoEmptyRegion) {
			continue
		}
		s.noError(err)
		b.Promise(1)
		s.ok(a.Do(WriteOf(At(region, 0), want), SendOf([]byte("written"))))
		b.Receive()
		s.noError(region.Deregister())
		s.same(fmt.Sprintf("memory of %d bytes", n), memory, want)
	}
}

func taggedWriteGathers(s *suite, a, b *Peer) {
	want := pattern(1, 100_000)
	var local [][]byte
	rest := want
	for i := 1; i < min(16, a.Conn().Limits().MaxLocal); i++ {
		local = append(local, rest[:(i-1)*797])
		rest = rest[(i-1)*797:]
	}
	local = append(local, rest)
	memory := make([]byte, len(want))
	region := b.Expose(memory, rdmacm.RemoteWrite)
	s.ok(a.Do(WriteOf(At(region, 0), local...), SendOf()))
	b.Receive()
	s.noError(region.Deregister())
	s.same("memory", memory, want)
}

func taggedWriteExact(s *suite, a, b *Peer) {
	memory := pattern(1, 10_000)
	want := append([]byte(nil), memory...)
	region := b.Expose(memory[1000:9000], rdmacm.RemoteWrite)
	for i, c := range []struct{ at, n int }{{0, 1}, {7999, 1}, {0, 13}, {7000, 1000}, {501, 4099}, {3, 0}, {8000, 0}} {
		piece := pattern(10+i, c.n)
		s.ok(a.Do(WriteOf(At(region, c.at), piece)))
		copy(want[1000+c.at:], piece)
	}
	s.noError(a.Send(nil))
	b.Receive()
	s.noError(region.Deregister())
	s.same("memory", memory, want)
}

// When a Send arrives, the data of the Writes before it is in place.
func taggedWriteThenSend(s *suite, a, b *Peer) {
	const rounds, writes, size = 30, 7, 3001
	memory := make([]byte, writes*size)
	region := b.Expose(memory, rdmacm.RemoteWrite)
	for round := range rounds {
		want := pattern(round, len(memory))
		var chain []rdmacm.Work
		for i := range writes {
			w := WriteOf(At(region, i*size), want[i*size:(i+1)*size])
			if i < writes/2 {
				a.Post(w) // the data of Writes of earlier chains must be in place as well
			} else {
				chain = append(chain, w)
			}
		}
		b.Promise(1)
		sent := a.Post(append(chain, SendOf([]byte("written")))...)
		b.Receive()
		s.same("memory", memory, want)
		s.ok(a.await(sent))
	}
	s.noError(region.Deregister())
}

func taggedReadSizes(s *suite, a, b *Peer) {
	for i, n := range s.sizes(8 << 20) {
		want := pattern(i, n)
		region, err := b.Conn().Register(want, rdmacm.RemoteRead)
		if err != nil && n == 0 && s.lacks(b, rdmacm.NoEmptyRegion) {
			continue
		}
		s.noError(err)
		got, err := a.Read(At(region, 0), n)
		s.noError(err)
		s.same(fmt.Sprintf("%d bytes read", n), got, want)
		s.noError(region.Deregister())
	}
}

func taggedReadScatters(s *suite, a, b *Peer) {
	src := pattern(1, 50_000)
	region := b.Expose(src, rdmacm.RemoteRead)
	got := make([]byte, 40_000)
	var local [][]byte
	rest := got
	for i := 1; i < min(16, a.Conn().Limits().MaxLocal); i++ {
		local = append(local, rest[:i*101])
		rest = rest[i*101:]
	}
	s.ok(a.Do(ReadOf(At(region, 777), append(local, rest)...)))
	s.same("bytes read", got, src[777:777+len(got)])
	s.noError(region.Deregister())
}

func taggedReadDepth(s *suite, a, b *Peer) {
	depth := a.Conn().ReadDepth()
	src := pattern(1, depth*10_000)
	region := b.Expose(src, rdmacm.RemoteRead)
	for range 5 {
		got := make([]byte, len(src))
		var reads []<-chan Outcome
		for i := range depth {
			reads = append(reads, a.Post(ReadOf(At(region, i*10_000), got[i*10_000:(i+1)*10_000])))
		}
		for _, r := range reads {
			s.ok(a.await(r))
		}
		s.same("bytes read", got, src)
	}
	s.noError(region.Deregister())
}

func taggedReadTooDeep(s *suite, a, b *Peer) {
	depth := a.Conn().ReadDepth()
	region := b.Expose(pattern(1, 100), rdmacm.RemoteRead)
	var chain []rdmacm.Work
	for range depth + 1 {
		chain = append(chain, ReadOf(At(region, 0), make([]byte, 100)))
	}
	if o := a.Do(chain...); !errors.Is(o.Err, rdmacm.ErrReadDepth) {
		s.Fatalf("%d Reads where %d are allowed: %v", depth+1, depth, o.Err)
	}
	s.noError(region.Deregister())
}

func taggedReadsInTurn(s *suite, a, b *Peer) {
	src := pattern(1, 20*5000)
	region := b.Expose(src, rdmacm.RemoteRead)
	for i := range 20 {
		got, err := a.Read(At(region, i*5000), 5000)
		s.noError(err)
		s.same("bytes read", got, src[i*5000:(i+1)*5000])
	}
	s.noError(region.Deregister())
}

// Chains with any number of Reads and Writes and then a Send run in both directions at the same
// time.
func taggedMixed(s *suite, a, b *Peer) {
	const rounds, size = 25, 20_000
	type side struct {
		p        *Peer
		src, dst []byte
		readable rdmacm.Region
		writable rdmacm.Region
	}
	sides := [2]*side{{p: a}, {p: b}}
	for i, x := range sides {
		x.src, x.dst = pattern(i, size), make([]byte, size)
		x.readable = x.p.Expose(x.src, rdmacm.RemoteRead)
		x.writable = x.p.Expose(x.dst, rdmacm.RemoteWrite)
		s.promise(x.p, sides[1-i].p, rounds)
	}
	got := make([][2][]byte, rounds)
	var sent []<-chan Outcome
	for round := range rounds {
		for i, x := range sides {
			far := sides[1-i]
			n := 1 + round*size/rounds
			got[round][i] = make([]byte, n)
			half := n / 2
			sent = append(sent, x.p.Post(
				WriteOf(At(far.writable, 0), x.src[:half]),
				WriteOf(At(far.writable, half), x.src[half:n]),
			))
			chain := []rdmacm.Work{WriteOf(At(far.writable, half), x.src[half:n])}
			if round < x.p.Conn().ReadDepth() {
				chain = append(chain, ReadOf(At(far.readable, 0), got[round][i]))
			} else {
				copy(got[round][i], far.src)
			}
			chain = append(chain, WriteOf(At(far.writable, 0), x.src[:half]), SendOf([]byte{byte(round)}))
			sent = append(sent, x.p.Post(chain...))
		}
	}
	for _, o := range sent {
		s.ok(a.await(o))
	}
	for round := range rounds {
		for i, x := range sides {
			s.same("message", x.p.Receive().Bytes, []byte{byte(round)})
			s.same("bytes read", got[round][i], sides[1-i].src[:len(got[round][i])])
		}
	}
	n := 1 + (rounds-1)*size/rounds
	for i, x := range sides {
		s.noError(x.readable.Deregister())
		s.noError(x.writable.Deregister())
		s.same("memory written", x.dst[:n], sides[1-i].src[:n])
	}
}

func taggedEmptyChain(s *suite, a, b *Peer) {
	s.ok(a.Do())
	s.lives(a, b)
}

// The receiver does not check the STag and the offset of a Write of 0 bytes (RFC 5041 §5.2;
// conformance row IW-212).
func taggedZeroWrite(s *suite, a, b *Peer) {
	s.ok(a.Do(WriteOf(rdmacm.Remote{STag: 0xdeadbeef, Offset: 1<<64 - 1})))
	s.ok(a.Do(WriteOf(rdmacm.Remote{STag: 1}, nil, []byte{})))
	s.lives(a, b)
}

func taggedDoneInOrder(s *suite, a, b *Peer) {
	const n = 300
	src := pattern(1, 5000)
	region := b.Expose(src, rdmacm.RemoteRead|rdmacm.RemoteWrite)
	s.promise(b, a, n)
	order := make(chan int, n)
	reads := make(chan struct{}, a.Conn().ReadDepth())
	for i := range n {
		var w []rdmacm.Work
		switch i % 4 {
		case 0:
			w = []rdmacm.Work{SendOf([]byte{1})}
		case 1:
			w = []rdmacm.Work{WriteOf(At(region, 0), src)}
		case 2:
			reads <- struct{}{}
			w = []rdmacm.Work{ReadOf(At(region, 0), make([]byte, 1+i))}
		}
		a.Conn().Post(&rdmacm.Chain{Work: w, Context: i, Done: func(c *rdmacm.Chain, err error, failed int) {
			if err != nil || failed != -1 {
				s.Errorf("chain %v: %v, index %d", c.Context, err, failed)
			}
			if i%4 == 2 {
				<-reads
			}
			order <- c.Context.(int)
		}})
	}
	for i := range n {
		if got := within(s.T, "a chain comes back", order); got != i {
			s.Fatalf("chain %d comes back where %d is due", got, i)
		}
	}
	s.noError(region.Deregister())
}
