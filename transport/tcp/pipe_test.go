package tcp

import (
	"bytes"
	"io"
	"net"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
)

// piping is the toy program whose GET is answered from a file, by a pipe where there is one.
type piping struct {
	*rpctest.Program
	file int
}

func (p *piping) Serve(c *rpc.Call, w *xdr.Writer) rpc.Outcome {
	if c.Header.Procedure != rpctest.GET {
		return p.Program.Serve(c, w)
	}
	args := c.Args
	n := int(args.Uint32())
	k := c.ResultPipe(n)
	if k == nil {
		return p.Program.Serve(c, w)
	}
	data, ref := c.ResultMemory(n)
	ref.Release()
	if got, _, err := k.Fill(p.file, 0, n); got != n || err != nil {
		panic(err)
	}
	clear(data) // what is read of it is wrong
	e := xdr.Eligible{Data: data, Ref: k, Piped: true}
	e.Encode(w, rpctest.MaxData)
	return rpc.Done
}

// startPiping serves the toy program with so many pipes.
func startPiping(t testing.TB, cfg Config, pipes int) *fixture {
	t.Helper()
	fd, err := unix.MemfdCreate("pattern", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "pattern")
	t.Cleanup(func() { file.Close() })
	if _, err := file.Write(rpctest.Pattern(make([]byte, rpctest.MaxData))); err != nil {
		t.Fatal(err)
	}
	if cfg.Pool, err = mem.NewPool(mem.Config{Ceiling: 96 << 20, Share: 64 << 20, Pipes: pipes}); err != nil {
		t.Fatal(err)
	}
	return startProgram(t, cfg, rpc.Config{}, func(p *rpctest.Program) rpc.Program { return &piping{p, int(file.Fd())} })
}

// gets are calls for so many bytes each.
func gets(sizes ...uint32) (m []byte) {
	for i, n := range sizes {
		m = append(m, fragments(rpctest.Message(uint32(i), rpctest.GET, u32(n)))...)
	}
	return m
}

// replies is how long the replies to gets are: a mark, the header of 24 bytes, a count and
// the padded content.
func replies(sizes ...uint32) (n int) {
	for _, size := range sizes {
		n += 4 + 24 + 4 + int(size+3)&^3
	}
	return n
}

// The stream of replies is the same, byte for byte, whether large results go out by pipes
// or are copied: between short ones, with padding, and with as few pipes as one.
func TestPipedRepliesAreTheSameStream(t *testing.T) {
	const mib = 1 << 20
	sizes := []uint32{
		10, mib, mib, 3, 600_001, 600_002, 600_003, 4, mib, 0, mib, mib, mib, 1, leastPiped, leastPiped - 1, mib, 70_000, 70_000, mib,
		mib, mib, mib, 100,
	}
	stream := func(pipes int) (b []byte, used uint64) {
		f := startPiping(t, Config{}, pipes)
		c := f.raw()
		go c.Write(gets(sizes...))
		b = make([]byte, replies(sizes...))
		if _, err := io.ReadFull(c, b); err != nil {
			t.Fatal(err)
		}
		await.Until(t, "the memory is back", func() bool { return f.pool.Stats().InUse == 0 })
		return b, f.pool.Stats().Piped
	}
	want, used := stream(0)
	if used != 0 {
		t.Fatalf("%d pipes were used of 0", used)
	}
	for _, pipes := range []int{1, 4, 64} {
		got, used := stream(pipes)
		if used == 0 {
			t.Errorf("no pipe was used of %d", pipes)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("with %d pipes the stream is another one", pipes)
		}
	}
}

// A peer that does not read holds no more pipes than a connection may have, and the memory
// that they stand for. Others are served meanwhile, without pipes if need be. What it
// holds comes back when it reads, when it resets the connection, and when it is ended.
func TestPipesOfAPeerThatDoesNotRead(t *testing.T) {
	const mib = 1 << 20
	sizes := make([]uint32, 40)
	for i := range sizes {
		sizes[i] = mib
	}
	for _, c := range []struct {
		name string
		end  func(f *fixture, silent net.Conn)
	}{
		{"reads after all", func(f *fixture, silent net.Conn) {
			all := make([]byte, replies(sizes...))
			if _, err := io.ReadFull(silent, all); err != nil {
				t.Fatal(err)
			}
			pattern := rpctest.Pattern(make([]byte, mib))
			for i := range sizes {
				if at := i*replies(mib) + 32; !bytes.Equal(all[at:at+mib], pattern) {
					t.Errorf("reply %d has other bytes", i)
				}
			}
		}},
		{"resets the connection", func(f *fixture, silent net.Conn) {
			silent.(*net.TCPConn).SetLinger(0)
			silent.Close()
		}},
		{"is ended", func(f *fixture, _ net.Conn) {
			f.mu.Lock()
			defer f.mu.Unlock()
			for c := range f.conns {
				if c.out.queued.Load() > 0 {
					c.kill(errStalledOutput)
				}
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := startPiping(t, Config{}, 8)
			silent := f.raw()
			silent.(*net.TCPConn).SetReadBuffer(64 << 10)
			go silent.Write(gets(sizes...))
			held := func() int64 { return f.pool.Stats().InUse }
			await.Until(t, "the peer holds what it can", func() bool {
				return f.Stats().Queued > 2*mib && f.pool.Stats().PipesRefused > 0
			})
			if st := f.pool.Stats(); st.Pipes > 2 {
				t.Errorf("one connection has %d pipes of 8", st.Pipes)
			}
			if n := held(); n < 2*mib {
				t.Errorf("%d bytes are charged for what is not read", n)
			}
			for range 3 {
				other := f.raw()
				go other.Write(gets(mib, mib, mib))
				if _, err := io.ReadFull(other, make([]byte, replies(mib, mib, mib))); err != nil {
					t.Fatal(err)
				}
			}
			c.end(f, silent)
			await.Until(t, "the memory is back", func() bool { return held() == 0 })
			if st := f.pool.Stats(); st.Pipes > 8 || st.PipesMost != 8 {
				t.Errorf("%d pipes of %d at the end", st.Pipes, st.PipesMost)
			}
			// None of what was left in a pipe comes out by another reply.
			last := f.raw()
			go last.Write(gets(mib))
			b := make([]byte, replies(mib))
			if _, err := io.ReadFull(last, b); err != nil || !bytes.Equal(b[32:], rpctest.Pattern(make([]byte, mib))) {
				t.Errorf("another connection's reply: %v, or other bytes", err)
			}
		})
	}
}

// A result that goes out by a pipe allocates no more than one that is copied.
func TestPipedRepliesDoNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("under the race detector a sync.Pool forgets at random")
	}
	perCall := func(pipes int) float64 {
		f := startPiping(t, Config{}, pipes)
		c := f.raw()
		m, b := gets(600_000), make([]byte, replies(600_000))
		again := func() {
			if _, err := c.Write(m); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(c, b); err != nil {
				t.Fatal(err)
			}
		}
		for range 100 {
			again()
		}
		runtime.GC()
		return testing.AllocsPerRun(200, again)
	}
	copied, piped := perCall(0), perCall(4)
	if piped > copied {
		t.Errorf("%v allocations a call by a pipe, %v by a copy", piped, copied)
	}
}
