package local_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// A failingDisk is an ext4 file system with a file f of 256 blocks of 4 KiB. Its image is on a
// tmpfs. After fail, the tmpfs has neither the blocks with f's data nor room for them, so the disk
// cannot store data of f.
type failingDisk struct {
	t        *testing.T
	dir      string // mount point
	f        string
	ino      uint64 // inode number of f
	backing  string // directory of the tmpfs
	image    string
	atOffset int64 // offset of f's data in the image
}

const failingBlocks = 256

func newFailingDisk(t *testing.T) *failingDisk {
	if unix.Access("/dev/loop-control", unix.W_OK) != nil || os.Geteuid() != 0 {
		t.Skip("no disks can be made here")
	}
	d := &failingDisk{t: t, dir: t.TempDir(), backing: t.TempDir()}
	d.run("mount", "-t", "tmpfs", "-o", "size=70M", "none", d.backing)
	t.Cleanup(func() { unix.Unmount(d.backing, unix.MNT_DETACH) })
	d.image, d.f = filepath.Join(d.backing, "image"), filepath.Join(d.dir, "f")
	d.run("truncate", "-s", "64M", d.image)
	d.run("mkfs.ext4", "-q", "-b", "4096", "-J", "size=4", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard", d.image)
	d.run("dd", "if="+d.image, "of="+d.image, "conv=notrunc", "bs=1M", "status=none") // no holes
	d.run("mount", "-o", "loop", d.image, d.dir)
	t.Cleanup(func() { unix.Unmount(d.dir, unix.MNT_DETACH) })
	fd, err := unix.Open(d.f, unix.O_RDWR|unix.O_CREAT, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if _, err = unix.Write(fd, make([]byte, failingBlocks*4096)); err == nil {
		err = unix.Syncfs(fd)
	}
	if err == nil {
		err = unix.Fstat(fd, &st)
	}
	if err != nil {
		t.Fatal(err)
	}
	d.ino = st.Ino
	blocks := regexp.MustCompile(`(?m)^\s*0:\s+0\.\.\s*255:\s+(\d+)\.\.`).FindStringSubmatch(d.run("filefrag", "-v", d.f))
	if blocks == nil {
		t.Skip("the file is not in one piece")
	}
	first, err := strconv.ParseInt(blocks[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	d.atOffset = first * 4096
	return d
}

func (d *failingDisk) run(name string, args ...string) string {
	d.t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		d.t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
	return string(out)
}

// fail makes the disk fail from now on.
func (d *failingDisk) fail() {
	d.t.Helper()
	d.run("fallocate", "-p", "-o", strconv.FormatInt(d.atOffset, 10), "-l", strconv.Itoa(failingBlocks*4096), d.image)
	fill, err := os.Create(filepath.Join(d.backing, "fill"))
	if err != nil {
		d.t.Fatal(err)
	}
	defer fill.Close()
	for b := make([]byte, 1<<16); len(b) > 0; b = b[:len(b)/2] {
		for {
			if _, err := fill.Write(b); err != nil {
				break
			}
		}
	}
}

// stored returns the first byte of a block of f on the disk, or 0 if the disk does not have
// the block.
func (d *failingDisk) stored(block int) byte {
	fd, err := unix.Open(d.f, unix.O_RDONLY, 0)
	if err != nil {
		d.t.Fatal(err)
	}
	defer unix.Close(fd)
	unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED)
	p := make([]byte, 1)
	unix.Pread(fd, p, int64(block)*4096)
	return p[0]
}

// writeBlock writes b to a block of f.
func (w *world) writeBlock(f vfs.Handle, block int, b byte, stable vfs.Stability) error {
	p := make([]byte, 4096)
	p[0] = b
	_, done, _, err := w.fs.Write(w.op, f, uint64(block)*4096, [][]byte{p}, stable)
	if err == nil && done < stable {
		w.Errorf("a WRITE that asked for %d is %d", stable, done)
	}
	return err
}

// If one WRITE's sync loses the data of another WRITE, both fail. The second WRITE stores its data
// while the sync of the first one runs. That sync takes the data of both, and the kernel reports
// the failure once, to this sync; a sync of the second WRITE would find nothing to do.
func TestWriteThatAnothersSyncLostIsToldSo(t *testing.T) {
	d := newFailingDisk(t)
	held, goOn := make(chan struct{}), make(chan struct{})
	var first sync.Once
	w := newWorld(t, local.Config{Root: d.dir, SyncHook: func(_ local.SyncCall, fd int) error {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) == nil && st.Ino == d.ino {
			first.Do(func() { close(held); <-goOn })
		}
		return nil
	}})
	f, err := w.lookup(w.fs.Root(), "f")
	w.ok(err, "Lookup")
	d.fail()
	before := w.fs.Verifier()
	one, two := make(chan error, 1), make(chan error, 1)
	go func() { one <- w.writeBlock(f, 0, 'A', vfs.FileSync) }()
	<-held
	go func() { two <- w.writeBlock(f, 2, 'B', vfs.FileSync) }()
	await.Until(t, "the second WRITE waits for the first one's sync", func() bool { return w.fs.Syncing(f, 1) })
	close(goOn)
	if err := <-one; err == nil {
		t.Error("the first WRITE was answered, and the disk failed")
	}
	if err := <-two; err == nil && d.stored(2) != 'B' {
		t.Error("the second WRITE was answered, and its data is lost")
	}
	if w.fs.Verifier() == before {
		t.Error("the verifier is what it was before data was lost")
	}
}

// While sixteen writers write one block at a time each, the disk has the data of every WRITE that
// succeeded.
func TestAnsweredWritesAreOnAFailingDisk(t *testing.T) {
	d := newFailingDisk(t)
	w := newWorld(t, local.Config{Root: d.dir})
	f, err := w.lookup(w.fs.Root(), "f")
	w.ok(err, "Lookup")
	d.fail()
	const writers = 16
	var answered [failingBlocks]bool
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for block := i; block < failingBlocks; block += writers {
				answered[block] = w.writeBlock(f, block, 'B', vfs.FileSync) == nil
			}
		})
	}
	wg.Wait()
	w.ok(w.fs.Close(), "Close")
	for block, ok := range answered {
		if ok && d.stored(block) != 'B' {
			t.Errorf("block %d was answered, and is lost", block)
		}
	}
}

// If the disk loses unstable data, the verifier changes, whichever call gets the disk's error
// first.
func TestUnstableDataThatTheDiskLost(t *testing.T) {
	for how, meet := range map[string]func(w *world, d *failingDisk, f vfs.Handle){
		"COMMIT": func(*world, *failingDisk, vfs.Handle) {},
		"a program's fsync, then COMMIT": func(w *world, d *failingDisk, _ vfs.Handle) {
			fd, err := unix.Open(d.f, unix.O_RDWR, 0)
			w.ok(err, "open")
			defer unix.Close(fd)
			if unix.Fsync(fd) == nil {
				w.Error("the disk did not fail")
			}
		},
		"the flusher, and the file is let go": func(w *world, _ *failingDisk, _ vfs.Handle) {
			w.fs.Sweep(35)
			w.fs.EvictAll()
		},
	} {
		t.Run(how, func(t *testing.T) {
			d := newFailingDisk(t)
			w := newWorld(t, local.Config{Root: d.dir})
			f, err := w.lookup(w.fs.Root(), "f")
			w.ok(err, "Lookup")
			d.fail()
			before := w.fs.Verifier()
			w.ok(w.writeBlock(f, 0, 'A', vfs.Unstable), "Write")
			meet(w, d, f)
			w.fs.Commit(w.op, f, 0, 0)
			if w.fs.Verifier() == before {
				t.Error("the verifier is what it was, and the data is lost")
			}
		})
	}
}
