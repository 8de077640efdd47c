package tcp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// A script is a stream that returns input in the pieces that cut determines, and collects
// output. It reports the end of the input always in a read of its own.
type script struct {
	in     []byte
	cut    func() (n int, again bool) // size of the next read, and whether nothing follows it for now
	budget int
	again  bool
	out    []byte
	reads  int
	writes int
	seen   [][]byte // the buffers of the last write
	kept   int      // what the kernel keeps of the output
}

func (s *script) receive(ready func() bool) error {
	for ready() {
	}
	return nil
}

func (s *script) next() { s.budget, s.again = s.cut() }

func (s *script) tryRead(p []byte) (n int, more bool, err error) {
	if len(p) == 0 {
		panic("nothing to read into")
	}
	if s.budget == 0 {
		s.next()
	}
	if len(s.in) == 0 {
		return 0, false, io.EOF
	}
	n = copy(p[:min(len(p), s.budget)], s.in)
	s.budget -= n
	s.in = s.in[n:]
	s.reads++
	return n, s.budget > 0 || !s.again, nil
}

func (s *script) tryWrite(bufs [][]byte, _ bool) (n int, err error) {
	s.writes++
	s.seen = s.seen[:0]
	for _, b := range bufs {
		s.out = append(s.out, b...)
		s.seen = append(s.seen, b)
		n += len(b)
	}
	return n, nil
}

// same reports whether the last write referred to p itself.
func (s *script) same(p []byte) bool {
	for _, b := range s.seen {
		if len(b) == len(p) && &b[0] == &p[0] {
			return true
		}
	}
	return false
}

func (s *script) transmit(ready func() bool) error { panic("the script takes everything") }
func (s *script) gone() (reset, closed bool)       { return false, false }
func (s *script) left() bool                       { return false }
func (s *script) readable() bool                   { return s.again || len(s.in) > 0 }

func (s *script) interrupt()     {}
func (s *script) resume()        {}
func (s *script) closeWrite()    {}
func (s *script) close(bool)     {}
func (s *script) unacked() int   { return s.kept }
func (s *script) mostUnsent(int) {}

// bench is a connection whose stream is a script.
type bench struct {
	cfg  Config
	pool *mem.Pool
}

func newBench(t testing.TB, cfg Config) *bench {
	p, err := mem.NewPool(mem.Config{Ceiling: 16 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return &bench{cfg: cfg, pool: p}
}

var client = netip.MustParseAddrPort("192.0.2.9:812")

func toyServer(t testing.TB) (*rpc.Server, *rpctest.Program) {
	s, p := rpc.NewServer(rpc.Config{}), rpctest.NewProgram()
	s.Register(p)
	p.Judging = func(a *rpc.Arrived, j *rpc.Judgement) rpc.Outcome {
		switch a.Header.Procedure {
		case rpctest.STALL, rpctest.HOLD, rpctest.LATER, rpctest.STORE, rpctest.COMPOUND: // these are answered out of order, or never
			return rpc.Denied(rpc.AuthTooWeak)
		}
		return rpc.Done
	}
	return s, p
}

// run passes the input in to a new connection. It returns the connection's output, the number of
// reads, and the reason for its end.
func (b *bench) run(t testing.TB, in []byte, cut func() (int, bool)) (out []byte, reads int, err error) {
	s, p := toyServer(t)
	cfg := b.cfg
	cfg.RPC, cfg.Pool = s, b.pool
	cfg = cfg.withDefaults()
	st := &script{in: in, cut: cut}
	_, err = testConn(&cfg, b.pool, st).run()
	p.Wait()
	s.Close()
	if n := b.pool.Stats().InUse; n != 0 {
		t.Fatalf("%d bytes of payload memory are still in use", n)
	}
	return st.out, st.reads, err
}

// testConn returns a connection on the stream st.
func testConn(cfg *Config, pool *mem.Pool, st stream) *conn {
	return newConn(cfg, new(counters), st, cfg.RPC, cfg.RPC.NewConn(client, client, "tcp", true))
}

// reference splits the input into records in the simplest way, and answers them by the same rpc
// package. The tests compare connections with it.
func reference(t testing.TB, in []byte, cfg Config) (out []byte) {
	s, p := toyServer(t)
	defer s.Close()
	defer p.Wait()
	conn := s.NewConn(client, client, "tcp", true)
	var record []byte
	for len(in) >= markSize {
		n, last := mark(in)
		if n > cfg.MaxRecord-len(record) {
			return out
		}
		in = in[markSize:]
		if n > len(in) {
			return out
		}
		record = append(record, in[:n]...)
		in = in[n:]
		if !last {
			continue
		}
		if _, kind, ok := rpc.MessageType(record); !ok || kind == rpc.TypeCall {
			c := rpctest.NewCall(conn, record)
			c.Space.Inline = cfg.MaxReply
			switch c.Run(s); {
			case c.End == rpctest.Sent:
			case c.Why == rpc.RefuseRoom:
				w := xdr.NewWriter(make([]byte, 0, 24))
				rpc.PutAccepted(w, c.Header.XID, rpc.AcceptSystemErr)
				c.Reply = w.Bytes()
			default:
				record = nil
				continue
			}
			out = binary.BigEndian.AppendUint32(out, lastFragment|uint32(len(c.Reply)))
			out = append(out, c.Reply...)
		}
		record = nil
	}
	return out
}

// fragments returns m as fragments of the given sizes; the rest is the last one.
func fragments(m []byte, sizes ...int) (out []byte) {
	for _, n := range sizes {
		n = min(n, len(m))
		out = binary.BigEndian.AppendUint32(out, uint32(n))
		out = append(out, m[:n]...)
		m = m[n:]
	}
	out = binary.BigEndian.AppendUint32(out, lastFragment|uint32(len(m)))
	return append(out, m...)
}

func whole() (int, bool) { return 1 << 30, true }

func each(n int, again bool) func() (int, bool) { return func() (int, bool) { return n, again } }

func random(seed uint64, most int) func() (int, bool) {
	r := rand.New(rand.NewPCG(seed, 1))
	return func() (int, bool) { return 1 + r.IntN(most), r.IntN(2) == 0 }
}

func repeat(n, times int) []int {
	s := make([]int, times)
	for i := range s {
		s[i] = n
	}
	return s
}

// conversation returns calls of many sizes up to most, cut into fragments in many ways.
func conversation(fragmented bool, most int) (in []byte) {
	put := func(xid uint32, n int) []byte {
		return rpctest.Message(xid, rpctest.PUT, func(w *xdr.Writer) {
			w.String("a name")
			w.Payload(rpctest.Pattern(make([]byte, n)), true, nil)
		})
	}
	echo := func(xid uint32, n int) []byte {
		return rpctest.Message(xid, rpctest.ECHO, func(w *xdr.Writer) { w.Opaque(rpctest.Pattern(make([]byte, n))) })
	}
	for i, m := range [][]byte{
		rpctest.Message(1, rpctest.NULL, nil),
		echo(2, 7), echo(3, rpctest.MaxEcho), put(4, 0), put(5, 2000), put(6, ringRecord-100), put(7, ringRecord),
		put(8, ringSize-52), put(9, ringSize), put(10, 70<<10+1), put(11, 90<<10),
		rpctest.Message(12, rpctest.GET, u32(70001)), echo(13, 0),
		echo(14, 40000), // longer than the procedure accepts: refused
		put(15, 3), rpctest.Message(16, rpctest.PAIR, u32(1, 1, 4097)), rpctest.Message(17, rpctest.NULL, nil),
	} {
		if len(m) > most {
			continue
		}
		var sizes []int
		if fragmented {
			sizes = [][]int{{0}, {0, 0, 4, 0}, {1, 2, 3}, repeat(1, 40), repeat(100, 1000), {ringRecord}, {2048}, {2047, 1, ringSize}}[i%8]
		}
		in = append(in, fragments(m, sizes...)...)
	}
	return in
}

// How records are cut into fragments, and fragments into reads, makes no difference (RFC 5531 §11).
func TestFragmentation(t *testing.T) {
	b := newBench(t, Config{})
	cfg := b.cfg.withDefaults()
	for _, fragmented := range []bool{false, true} {
		for _, c := range []struct {
			name string
			most int // largest record
			cut  func() (int, bool)
		}{
			{"whole", 1 << 20, whole},
			{"as much as fits", 1 << 20, each(1<<30, false)},
			{"byte by byte", 32<<10 + 100, each(1, true)},
			{"byte by byte, at once", 32<<10 + 100, each(1, false)},
			{"3 bytes", 32<<10 + 100, each(3, true)},
			{"1460 bytes", 1 << 20, each(1460, false)},
			{"ring less one", 1 << 20, each(ringSize-1, true)},
			{"random small", 1 << 20, random(1, 50)},
			{"random", 1 << 20, random(2, 5000)},
			{"random large", 1 << 20, random(3, 200000)},
		} {
			t.Run(fmt.Sprintf("%s, fragmented %v", c.name, fragmented), func(t *testing.T) {
				in := conversation(fragmented, c.most)
				want := reference(t, in, cfg)
				if len(want) < 90000 {
					t.Fatalf("only %d bytes of answers", len(want))
				}
				got, _, err := b.run(t, in, c.cut)
				if err != io.EOF {
					t.Errorf("ended with %v", err)
				}
				if !bytes.Equal(got, want) {
					t.Fatalf("%d bytes of answers, want %d", len(got), len(want))
				}
			})
		}
	}
}

func TestRecordsEndingTooEarly(t *testing.T) {
	b := newBench(t, Config{})
	in := fragments(rpctest.Message(1, rpctest.NULL, nil), 10)
	for n := 1; n < len(in); n++ {
		out, _, err := b.run(t, in[:n], whole)
		if err != io.ErrUnexpectedEOF || len(out) != 0 {
			t.Fatalf("%d of %d bytes: %v, %d bytes of answers", n, len(in), err, len(out))
		}
	}
}

// A record over the limit ends its connection as soon as a fragment's header shows the length,
// before memory is spent on it. Earlier calls are answered.
func TestRecordLimit(t *testing.T) {
	b := newBench(t, Config{MaxRecord: 100 << 10})
	null := fragments(rpctest.Message(1, rpctest.NULL, nil))
	other := func(n int) []byte { return bytes.Repeat([]byte{9}, n) }
	for name, in := range map[string][]byte{
		"one fragment":    binary.BigEndian.AppendUint32(nil, lastFragment|100<<10+1),
		"2 GiB":           {0xff, 0xff, 0xff, 0xff},
		"2 GiB, to go on": {0x7f, 0xff, 0xff, 0xff},
		"in sum":          fragments(other(100<<10+1), 100<<10),
		"many":            fragments(other(200<<10), repeat(1000, 150)...),
	} {
		t.Run(name, func(t *testing.T) {
			out, _, err := b.run(t, append(null[:len(null):len(null)], in...), whole)
			if !errors.Is(err, errRecordTooLong) {
				t.Errorf("ended with %v", err)
			}
			if len(out) != markSize+rpc.ReplyHeader {
				t.Errorf("%d bytes of answers", len(out))
			}
		})
	}
	at := fragments(rpctest.Message(1, rpctest.PUT, func(w *xdr.Writer) {
		w.String("x")
		w.Payload(make([]byte, 100<<10-52), true, nil)
	}))
	if n, _ := mark(at); n != 100<<10 {
		t.Fatalf("a record of %d bytes", n)
	}
	if _, _, err := b.run(t, at, whole); err != io.EOF {
		t.Errorf("a record at the limit: %v", err)
	}
}

// Bytes that are no RPC message are dropped with their record, and the connection goes on.
func TestRecordsThatAreNoMessage(t *testing.T) {
	b := newBench(t, Config{})
	null := fragments(rpctest.Message(1, rpctest.NULL, nil))
	in := bytes.Join([][]byte{
		fragments(nil), fragments([]byte{1}), fragments(make([]byte, 7)), fragments(bytes.Repeat([]byte{9}, 50)),
		fragments([]byte{0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0}), // a reply that belongs to no call
		fragments(append([]byte{0, 0, 0, 1, 0, 0, 0, 1}, make([]byte, 100000)...)),
		fragments(make([]byte, 90000), 5, 80000), null,
	}, nil)
	out, _, err := b.run(t, in, random(5, 9000))
	want := reference(t, in, b.cfg.withDefaults())
	if err != io.EOF || !bytes.Equal(out, want) {
		t.Fatalf("%v, %x, want %x", err, out, want)
	}
}

// For any bytes, in any pieces, a connection gives the same answers as reference.
func FuzzRecord(f *testing.F) {
	f.Add(fragments(rpctest.Message(1, rpctest.NULL, nil)), uint64(1), 10)
	f.Add(fragments(rpctest.Message(1, rpctest.ECHO, func(w *xdr.Writer) { w.String("hello") }), 1, 0, 9), uint64(2), 3)
	f.Add(append(fragments(make([]byte, 40000), 30000), fragments(rpctest.Message(1, rpctest.NULL, nil))...), uint64(3), 20000)
	f.Add([]byte{0xff, 0xff, 0xff, 0xff}, uint64(1), 1)
	b := newBench(f, Config{MaxRecord: 96 << 10})
	f.Fuzz(func(t *testing.T, in []byte, seed uint64, most int) {
		got, _, err := b.run(t, in, random(seed, max(1, most&0xffff)))
		if err == nil {
			t.Fatal("ended without a cause")
		}
		want := reference(t, in, b.cfg.withDefaults())
		if err != io.EOF && len(got) > len(want) && len(got)-len(want) <= markSize+rpc.ErrorReply {
			got = got[:len(want)] // the server refused a record by its start, and the record never ended
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("answers\n%x, want\n%x", got, want)
		}
	})
}
