package iwarp

import (
	"fmt"
	"net"
	"syscall"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

const mib = 1 << 20

// BenchmarkStreamTCP measures a bare Go TCP stream over loopback, written and read by the MiB.
// The other benchmarks are compared with it.
func BenchmarkStreamTCP(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	done := make(chan int)
	go func() {
		c, err := l.Accept()
		if err != nil {
			close(done)
			return
		}
		buf, total := make([]byte, mib), 0
		for {
			n, err := c.Read(buf)
			total += n
			if err != nil {
				break
			}
		}
		c.Close()
		done <- total
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	buf := randomBytes(mib)
	b.SetBytes(mib)
	defer cpu(b)()
	for b.Loop() {
		if _, err := c.Write(buf); err != nil {
			b.Fatal(err)
		}
	}
	c.Close()
	<-done
}

// cpu starts to measure the processor time of the process, which varies less than the clock if
// other programs use the machine. The function that it returns reports the time for each
// operation.
func cpu(b *testing.B) func() {
	var before, after syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &before)
	return func() {
		syscall.Getrusage(syscall.RUSAGE_SELF, &after)
		us := func(r *syscall.Rusage) float64 {
			return float64(r.Utime.Nano()+r.Stime.Nano()) / 1e3
		}
		b.ReportMetric((us(&after)-us(&before))/float64(b.N), "cpu-µs/op")
	}
}

// A window limits the number of outstanding chains.
type window struct {
	c    rdmacm.Conn
	free chan *rdmacm.Chain
}

func newWindow(b *testing.B, c rdmacm.Conn, depth int, work func(i int) rdmacm.Work) *window {
	w := &window{c: c, free: make(chan *rdmacm.Chain, depth)}
	for i := range depth {
		w.free <- &rdmacm.Chain{Work: []rdmacm.Work{work(i)}, Done: func(ch *rdmacm.Chain, err error, _ int) {
			if err != nil {
				b.Error(err)
			}
			w.free <- ch
		}}
	}
	return w
}

func (w *window) post() { w.c.Post(<-w.free) }

func (w *window) drain() {
	for range cap(w.free) {
		<-w.free
	}
}

func benchWrite(b *testing.B, crc CRCMode) {
	ha, hb := newTester(), newTester()
	x, y := pair(b, Config{CRC: crc}, ha, hb)
	sink := make([]byte, mib)
	r, err := y.Register(sink, rdmacm.RemoteWrite)
	if err != nil {
		b.Fatal(err)
	}
	// The Send after the Writes shows that they have arrived.
	src := randomBytes(mib)
	w := newWindow(b, x, 8, func(int) rdmacm.Work {
		return rdmacm.Work{Op: rdmacm.OpWrite, Local: [][]byte{src}, Remote: rdmacm.Remote{STag: r.STag(), Offset: r.Offset()}}
	})
	b.SetBytes(mib)
	b.ReportAllocs()
	defer cpu(b)()
	for b.Loop() {
		w.post()
	}
	w.drain()
	post(x, rdmacm.Work{Op: rdmacm.OpSend})
	wait(b, hb.received)
	b.StopTimer()
	x.Disconnect()
	wait(b, ha.closed)
	wait(b, hb.closed)
}

func BenchmarkWrite1MiB(b *testing.B) {
	b.Run("crc=off", func(b *testing.B) { benchWrite(b, CRCOff) })
	b.Run("crc=on", func(b *testing.B) { benchWrite(b, CRCOn) })
}

func BenchmarkRead1MiB(b *testing.B) {
	for _, crc := range []CRCMode{CRCOff, CRCOn} {
		b.Run("crc="+crc.String(), func(b *testing.B) {
			ha, hb := newTester(), newTester()
			x, y := pair(b, Config{CRC: crc}, ha, hb)
			src, sink := randomBytes(mib), make([]byte, mib)
			r, err := y.Register(src, rdmacm.RemoteRead)
			if err != nil {
				b.Fatal(err)
			}
			w := newWindow(b, x, 8, func(int) rdmacm.Work {
				return rdmacm.Work{Op: rdmacm.OpRead, Local: [][]byte{sink}, Remote: rdmacm.Remote{STag: r.STag(), Offset: r.Offset()}}
			})
			b.SetBytes(mib)
			b.ReportAllocs()
			defer cpu(b)()
			for b.Loop() {
				w.post()
			}
			w.drain()
			b.StopTimer()
			x.Disconnect()
			wait(b, ha.closed)
			wait(b, hb.closed)
		})
	}
}

// BenchmarkSend answers Sends of 128 bytes by Sends of 128 bytes. depth Sends are outstanding.
// Both sides post from within their Handlers.
func BenchmarkSend(b *testing.B) {
	for _, depth := range []int{1, 32} {
		b.Run(fmt.Sprintf("depth=%d", depth), func(b *testing.B) {
			ha, hb := newTester(), newTester()
			body := make([]byte, 128)
			chains := func() chan *rdmacm.Chain {
				free := make(chan *rdmacm.Chain, 256)
				for range cap(free) {
					free <- &rdmacm.Chain{
						Work: []rdmacm.Work{send(body)},
						Done: func(ch *rdmacm.Chain, _ error, _ int) { free <- ch },
					}
				}
				return free
			}
			calls, replies := chains(), chains()
			var x, y rdmacm.Conn
			left, done := 0, make(chan struct{}, depth)
			hb.on(func(r *rdmacm.Recv) {
				r.Release()
				y.Provide(1, 4096)
				y.Post(<-replies)
			})
			ha.on(func(r *rdmacm.Recv) {
				r.Release()
				x.Provide(1, 4096)
				if left > 0 {
					left--
					x.Post(<-calls)
				} else {
					done <- struct{}{}
				}
			})
			x, y = pair(b, Config{CRC: CRCOff}, ha, hb)
			b.ReportAllocs()
			stop := cpu(b)
			left = max(b.N-depth, 0)
			b.ResetTimer()
			for range depth {
				x.Post(<-calls)
			}
			for range depth {
				<-done
			}
			b.StopTimer()
			stop()
			x.Disconnect()
			wait(b, ha.closed)
			wait(b, hb.closed)
		})
	}
}
