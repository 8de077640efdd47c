package vfstest

import (
	"bytes"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

var ioBesideTests = []Test{
	{"io/beside an appender", testReadBesideAppender},
	{"io/beside a truncator", testReadBesideTruncator},
	{"io/beside another program", testReadBesideProgram},
	{"io/not older than its Change", testReadNotOlder},
}

// While a writer appends, each Read describes one state of the file, and returns no byte that was not
// written. The writer cuts the file and begins again from time to time, as programs do with a log.
func testReadBesideAppender(x *fixture) {
	line := bytes.Repeat([]byte{'x'}, 100)
	at := uint64(0)
	x.readBeside("f", func(u *user, h vfs.Handle) error {
		if at >= 200_000 {
			at = 0
			return u.set(h, vfs.SetAttr{SetSize: true})
		}
		at += uint64(len(line))
		return u.write(h, at-uint64(len(line)), string(line))
	}, func(p []byte) bool { return bytes.IndexByte(p, 0) < 0 })
}

// While a writer cuts and extends the file, each Read describes one state of it.
func testReadBesideTruncator(x *fixture) {
	sizes, i := []uint64{9000, 100, 5000, 4096, 0, 12_000}, 0
	x.readBeside("f", func(u *user, h vfs.Handle) error {
		i++
		return u.set(h, vfs.SetAttr{SetSize: true, Size: sizes[i%len(sizes)]})
	}, func([]byte) bool { return true })
}

// While another program of the machine appends to the file and cuts it, each Read describes one state.
func testReadBesideProgram(x *fixture) {
	placed, ok := vfs.As[vfs.Placed](x.raw)
	if !ok {
		x.Skip("no other program reaches the files")
	}
	_, dir, err := placed.Place(x.self.op, x.dir)
	x.ok(err, "Place")
	f, err := os.OpenFile(filepath.Join(dir, "f"), os.O_RDWR|os.O_CREATE, 0o666)
	x.ok(err, "another program")
	defer f.Close()
	line, size := bytes.Repeat([]byte{'x'}, 100), int64(0)
	x.readBeside("f", func(*user, vfs.Handle) error {
		if size += 100; size < 50_000 {
			_, err := f.WriteAt(line, size-100)
			return err
		}
		size = 5000
		return f.Truncate(size)
	}, func(p []byte) bool { return bytes.IndexByte(p, 0) < 0 })
}

// readBeside reads the file called name many times, at the page where it ended a moment ago, while a
// goroutine calls the function change again and again. The function good reports whether the file may
// have such bytes.
func (x *fixture) readBeside(name string, change func(u *user, h vfs.Handle) error, good func(p []byte) bool) {
	x.concurrent()
	u, writer := x.self, x.as(x.self.op.Cred)
	o, _, err := x.fs.Create(u.op, x.dir, []byte(name), &vfs.CreateHow{Attr: withMode(0o644)})
	x.ok(err, "Create")
	h := u.handle(x.dir, name, o)
	var stop atomic.Bool
	var changing sync.WaitGroup
	changing.Go(func() {
		for !stop.Load() {
			if err := change(writer, h); err != nil {
				x.Errorf("a change beside reads: %v", err)
				return
			}
		}
	})
	defer changing.Wait()
	defer stop.Store(true)
	for _, size := range []int{64 << 10, 4096} {
		buf := make([]byte, size)
		for range 1500 {
			off := u.attr(h).Size &^ 4095
			var a vfs.Attr
			n, eof, err := x.fs.Read(u.op, h, off, buf, &a)
			x.ok(err, "Read")
			if end := off + uint64(n); n > 0 && end > a.Size || eof != (end >= a.Size) || n == 0 && !eof {
				x.Fatalf("Read(%d, %d): %d bytes, end of file %v, of a file with %d bytes", off, size, n, eof, a.Size)
			}
			if !good(buf[:n]) {
				x.Fatalf("Read(%d, %d): bytes that were never written", off, size)
			}
		}
	}
}

// The bytes of a Read are at least as new as its Change. A client keeps them for as long as the file
// has that Change.
func testReadNotOlder(x *fixture) {
	const files, writes = 4, 250 // writes: one for each value of a byte
	x.concurrent()
	type state struct {
		value  byte
		change uint64
	}
	for file := range files {
		u, writer := x.self, x.as(x.self.op.Cred)
		h := u.create(x.dir, string(rune('a'+file)), 0o644)
		u.mustWrite(h, 0, "\x00")
		read := make(chan struct{}, 1) // has a value if a Read has ended since the last write
		var changes [writes + 1]uint64 // by the value that the write stored; 0 if it is not known
		written := make(chan struct{})
		go func() {
			defer close(written)
			for i := 1; i <= writes; i++ {
				_, _, ch, err := x.fs.Write(writer.op, h, 0, [][]byte{{byte(i)}}, vfs.Unstable)
				if err != nil {
					x.Errorf("Write: %v", err)
					return
				}
				if ch.HasAfter {
					changes[i] = ch.After.Change
				}
				<-read
			}
		}()
		var all []state
		for reading := true; reading; {
			select {
			case <-written:
				reading = false
			case read <- struct{}{}:
			default:
			}
			var a vfs.Attr
			var buf [1]byte
			if n, _, err := x.fs.Read(u.op, h, 0, buf[:], &a); n != 1 || err != nil {
				x.Errorf("Read: %d, %v", n, err)
			}
			all = append(all, state{buf[0], a.Change})
		}
		<-written
		for _, s := range all {
			if next := int(s.value) + 1; next <= writes && changes[next] != 0 && s.change >= changes[next] {
				x.Fatalf("Read: what write %d stored, with Change %d; write %d had made it %d", s.value, s.change, next, changes[next])
			}
		}
	}
}
