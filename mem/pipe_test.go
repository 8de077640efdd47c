package mem

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// pooledPipes is a pool that may have so many pipes.
func pooledPipes(t testing.TB, most int) *Pool {
	return configured(t, Config{Ceiling: 64 << 20, Share: 64 << 20, Pipes: most})
}

// granted is a Buffer of n bytes.
func granted(t testing.TB, s *Share, n int) *Buffer {
	t.Helper()
	b, ok := s.TryGet(n)
	if !ok {
		t.Fatalf("%d bytes are not to be had", n)
	}
	return b
}

// fileOf is an open file with these bytes, on the file system of directory dir.
func fileOf(t testing.TB, dir string, content []byte) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, fmt.Sprint(rand.Uint64())))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.Close()
		os.Remove(f.Name())
	})
	if _, err := f.Write(content); err != nil {
		t.Fatal(err)
	}
	return f
}

// socketPair is a socket that does not block, and a peer to read from.
func socketPair(t testing.TB) (fd int, peer net.Conn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fds[1]), "peer")
	defer f.Close()
	if peer, err = net.FileConn(f); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fds[0]); peer.Close() })
	return fds[0], peer
}

// drained takes all out of k by way of a socket.
func drained(t testing.TB, k *Pipe) []byte {
	t.Helper()
	fd, peer := socketPair(t)
	want := k.Left()
	got := make(chan []byte, 1)
	go func() {
		b := make([]byte, want)
		n, _ := io.ReadFull(peer, b)
		got <- b[:n]
	}()
	for k.Left() > 0 {
		before := k.Left()
		n, err := k.Send(fd, k.Left()%2 == 0)
		if err == unix.EAGAIN {
			_, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, -1)
			if err == unix.EINTR {
				err = nil
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		if k.Left() != before-n {
			t.Fatalf("%d bytes sent of %d, and %d are left", n, before, k.Left())
		}
	}
	unix.Shutdown(fd, unix.SHUT_WR)
	return <-got
}

// A splice that a signal ends leaves room in the socket, of which nothing tells: Send goes on
// until all is sent, or the socket is full.
func TestPipeSendsUntilTheSocketIsFull(t *testing.T) {
	defer func(real func(int, *int64, int, *int64, int, int) (int64, error)) { splice = real }(splice)
	signals := 0
	splice = func(r int, at *int64, w int, to *int64, n, flags int) (int64, error) {
		if signals++; signals%3 == 0 {
			return 0, unix.EINTR
		}
		return unix.Splice(r, at, w, to, min(n, 5000), flags)
	}
	p := pooledPipes(t, 1)
	data := random(PipeSize)
	f := fileOf(t, t.TempDir(), data)
	b := granted(t, p.NewShare(), PipeSize)
	defer b.Release()
	k := b.Pipe()
	defer k.Release()
	if _, _, err := k.Fill(int(f.Fd()), 0, len(data)); err != nil {
		t.Fatal(err)
	}
	fd, peer := socketPair(t)
	sent := 0
	for k.Left() > 0 {
		n, err := k.Send(fd, false)
		sent += n
		if k.Left() > 0 && err != unix.EAGAIN {
			t.Fatalf("%d bytes sent, %d left: %v", n, k.Left(), err)
		}
		got := make([]byte, n)
		if _, err := io.ReadFull(peer, got); err != nil || !bytes.Equal(got, data[sent-n:sent]) {
			t.Fatalf("other bytes: %v", err)
		}
	}
	if sent != len(data) {
		t.Errorf("%d bytes of %d", sent, len(data))
	}
}

// random are n bytes.
func random(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

// What goes through a pipe is what the file has, from any offset, to its end.
func TestPipeCarriesTheFile(t *testing.T) {
	p := pooledPipes(t, 1)
	b := granted(t, p.NewShare(), PipeSize)
	defer b.Release()
	content := random(3<<20 + 123)
	f := fileOf(t, t.TempDir(), content)
	for _, c := range []struct {
		offset, n int
		ended     bool
	}{
		{0, PipeSize, false}, {4096, PipeSize, false}, {4095, PipeSize - 4096, false}, {1, 1, false}, {70_001, 600_000, false},
		{3 << 20, PipeSize, true}, {3<<20 + 100, 23, false}, {3<<20 + 123, 4096, true}, {5 << 20, 4096, true}, {0, 0, false},
	} {
		k := b.Pipe()
		if k == nil {
			t.Fatal("no pipe")
		}
		if !k.Takes(int64(c.offset), c.n) {
			t.Fatalf("a pipe does not take %d bytes from %d on", c.n, c.offset)
		}
		got, ended, err := k.Fill(int(f.Fd()), int64(c.offset), c.n)
		want := content[min(c.offset, len(content)):min(c.offset+c.n, len(content))]
		if got != len(want) || got != k.Left() || ended != c.ended || err != nil {
			t.Fatalf("%d bytes from %d on: %d in the pipe, %d left, ended %v, %v; want %d, ended %v", c.n, c.offset, got, k.Left(), ended, err, len(want), c.ended)
		}
		if !bytes.Equal(drained(t, k), want) {
			t.Errorf("%d bytes from %d on are other ones", c.n, c.offset)
		}
		k.Release()
	}
	if st := p.Stats(); st.Pipes != 1 || st.Piped != 10 || st.PipesRefused != 0 {
		t.Errorf("%d pipes were made for %d uses, %d were refused", st.Pipes, st.Piped, st.PipesRefused)
	}
}

// A pipe has as many pages as a result can have at most, but only where it starts at one.
func TestPipeTakesWholePages(t *testing.T) {
	p := pooledPipes(t, 1)
	b := granted(t, p.NewShare(), PipeSize)
	defer b.Release()
	k := b.Pipe()
	defer k.Release()
	for _, c := range []struct {
		offset int64
		n      int
		takes  bool
	}{
		{0, PipeSize, true}, {1, PipeSize, false}, {4096, PipeSize, true}, {1<<40 + 4095, PipeSize, false}, {4095, PipeSize - 4095, true},
		{0, PipeSize + 1, false},
	} {
		if got := k.Takes(c.offset, c.n); got != c.takes {
			t.Errorf("%d bytes from %d on: takes them %v", c.n, c.offset, got)
		}
	}
}

// A file that is made shorter, written to or removed while its pages are in a pipe leaves
// the pipe as long as it is. Each byte is one that the file had.
func TestPipeStaysAsLongAsItIs(t *testing.T) {
	p := pooledPipes(t, 1)
	b := granted(t, p.NewShare(), PipeSize)
	defer b.Release()
	old := bytes.Repeat([]byte{1}, PipeSize)
	for name, change := range map[string]func(f *os.File) error{
		"made empty":   func(f *os.File) error { return f.Truncate(0) },
		"made shorter": func(f *os.File) error { return f.Truncate(12345) },
		"a hole": func(f *os.File) error {
			return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 4096, 300_000)
		},
		"written to": func(f *os.File) error { _, err := f.WriteAt(bytes.Repeat([]byte{2}, 5000), 100_000); return err },
		"removed":    func(f *os.File) error { return os.Remove(f.Name()) },
	} {
		for _, dir := range []string{t.TempDir(), "/dev/shm"} {
			f := fileOf(t, dir, old)
			k := b.Pipe()
			if got, _, err := k.Fill(int(f.Fd()), 0, PipeSize); got != PipeSize || err != nil {
				t.Fatal(got, err)
			}
			if err := change(f); err != nil {
				t.Fatal(name, err)
			}
			got := drained(t, k)
			if len(got) != PipeSize {
				t.Errorf("%s in %s: %d bytes come of %d", name, dir, len(got), PipeSize)
			}
			for at, v := range got {
				if v > 2 {
					t.Fatalf("%s in %s: byte %d is %d", name, dir, at, v)
				}
			}
			k.Release()
		}
	}
}

// What a pipe refers to is charged as long as it refers to it: the memory goes back with
// the pipe.
func TestPipeHoldsItsBuffer(t *testing.T) {
	p := pooledPipes(t, 1)
	s := p.NewShare()
	b := granted(t, s, PipeSize)
	k := b.Pipe()
	b.Release()
	if n := s.InUse(); n != PipeSize {
		t.Errorf("%d bytes are charged while the pipe is in use", n)
	}
	k.Release()
	if n := s.InUse(); n != 0 {
		t.Errorf("%d bytes are charged when it is not", n)
	}
	defer func() {
		if recover() == nil {
			t.Error("a pipe is given back twice")
		}
	}()
	k.Release()
}

// A pipe that is given back with something in it is closed, so that it comes to no other reply.
func TestPipeIsGivenOutEmpty(t *testing.T) {
	p := pooledPipes(t, 1)
	b := granted(t, p.NewShare(), PipeSize)
	defer b.Release()
	f := fileOf(t, t.TempDir(), bytes.Repeat([]byte{1}, 4<<20))
	before := descriptors(t)
	for range 50 {
		k := b.Pipe()
		if k == nil || k.Left() != 0 {
			t.Fatal("no empty pipe")
		}
		if got, _, err := k.Fill(int(f.Fd()), 0, PipeSize); got != PipeSize || err != nil {
			t.Fatal(got, err) // it would not take that much
		}
		k.Release()
		if n := p.Stats().Pipes; n != 0 {
			t.Fatalf("%d pipes are kept", n)
		}
	}
	if n := descriptors(t); n != before {
		t.Errorf("%d descriptors, %d before", n, before)
	}
}

func descriptors(t testing.TB) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// A connection has a quarter of the pipes at most, a client half of them, and all clients
// together no more than there are. A pool that is closed has none, and keeps none.
func TestPipesAreShared(t *testing.T) {
	p := pooledPipes(t, 8)
	before := descriptors(t)
	var all []*Pipe
	take := func(s *Share) (n int) {
		b := granted(t, s, 1)
		defer b.Release()
		for {
			k := b.Pipe()
			if k == nil {
				return n
			}
			all = append(all, k)
			n++
		}
	}
	for i, want := range []int{2, 2, 0} {
		if n := take(p.OpenShare("a", nil)); n != want {
			t.Errorf("connection %d of a client gets %d pipes of 8", i, n)
		}
	}
	for i, want := range []int{2, 2, 0} {
		if n := take(p.OpenShare(i, nil)); n != want {
			t.Errorf("client %d beside it gets %d pipes", i, n)
		}
	}
	all[0].Release()
	if n := take(p.OpenShare("b", nil)); n != 1 {
		t.Errorf("%d pipes are to be had when one was given back", n)
	}
	if st := p.Stats(); st.Pipes != 8 || st.PipesRefused != 7 {
		t.Errorf("%d pipes, %d were refused", st.Pipes, st.PipesRefused)
	}
	all[1].Release()
	b := granted(t, p.OpenShare("c", nil), 1)
	p.Close()
	if b.Pipe() != nil {
		t.Error("a pool that is closed has a pipe")
	}
	b.Release()
	for _, k := range all[2:] {
		k.Release()
	}
	if n := descriptors(t); n != before || p.Stats().Pipes != 0 {
		t.Errorf("%d descriptors and %d pipes at the end, %d descriptors before", n, p.Stats().Pipes, before)
	}
}

// Where the system gives no more pipes, those are used that there are.
func TestPipesAreRefusedBySystem(t *testing.T) {
	p := pooledPipes(t, 64)
	b := granted(t, p.NewShare(), 1)
	defer b.Release()
	first := b.Pipe()
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	second := b.Pipe()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if second != nil {
		t.Fatal("a pipe beyond the limit of open files")
	}
	if b.Pipe() != nil || p.Stats().PipesMost != 1 {
		t.Errorf("another is tried, up to %d", p.Stats().PipesMost)
	}
	first.Release()
	if first = b.Pipe(); first == nil {
		t.Fatal("the pipe that there is cannot be used")
	}
	first.Release()
}

// A pipe in use, from its being filled until it is given back, allocates nothing.
func TestPipesDoNotAllocate(t *testing.T) {
	p := pooledPipes(t, 1)
	b := granted(t, p.NewShare(), PipeSize)
	defer b.Release()
	f := fileOf(t, t.TempDir(), random(64<<10))
	fd, peer := socketPair(t)
	in := make([]byte, 64<<10)
	file := int(f.Fd())
	if n := testing.AllocsPerRun(100, func() {
		k := b.Pipe()
		if _, _, err := k.Fill(file, 0, len(in)); err != nil {
			t.Fatal(err)
		}
		for k.Left() > 0 {
			n, err := k.Send(fd, false)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(peer, in[:n]); err != nil {
				t.Fatal(err)
			}
		}
		k.Release()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A process without capabilities meets the limit of its user: a pipe of this size is
// refused, and none that is smaller is handed out in its place.
func TestPipeSizeIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the capabilities that lift the limit are root's")
	}
	var soft int
	if b, err := os.ReadFile("/proc/sys/fs/pipe-user-pages-soft"); err != nil {
		t.Fatal(err)
	} else if fmt.Sscan(string(b), &soft); soft == 0 || soft > 1<<20 {
		t.Skipf("the user may have %d pages", soft)
	}
	p := configured(t, Config{Ceiling: 64 << 20, Share: 64 << 20, Pipes: 8 * soft * PageSize / PipeSize})
	b := granted(t, p.NewShare(), 1)
	defer b.Release()
	done := make(chan []*Pipe)
	go func() {
		runtime.LockOSThread() // and the thread ends with the goroutine
		head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if err := unix.Capset(&head, &none[0]); err != nil {
			t.Error(err)
		}
		var all []*Pipe
		for k := b.Pipe(); k != nil; k = b.Pipe() {
			all = append(all, k)
		}
		done <- all
	}()
	all := <-done
	if len(all)*PipeSize > soft*os.Getpagesize() || p.Stats().PipesMost != len(all) {
		t.Errorf("%d pipes of at most %d pages together, and up to %d are tried", len(all), soft, p.Stats().PipesMost)
	}
	for _, k := range all {
		if k.slots*os.Getpagesize() < PipeSize {
			t.Errorf("a pipe has %d pages", k.slots)
		}
		k.Release()
	}
}
