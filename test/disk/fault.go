package disk

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A fault is one kind of fault of a disk. Each round has one fault.
type fault struct {
	name string
	// unexpected returns the reason why the server must not answer a call with this error, or ""
	// if it may.
	unexpected func(r *round, what string, o *object, s status) string
	// The function act makes the next calls of the writer w to the server.
	act func(w *writer)
	// early is true if the fault happens early in the round.
	early bool
	// long is true if one call of the function act makes many calls to the server.
	long bool
	// slow is true if the test needs few requests at a time (mounted.narrow) and a delay at each
	// bad sector (badTakes).
	slow bool
	// here is true if the fault is not possible with knfsd: it needs a file system that is mounted
	// on this machine, or faults of single sectors.
	here bool
	// strike makes the fault happen. The Device calls it during a request of the kernel, with
	// Device.mu held.
	strike func(r *round, d *Device)
	// load calls then after strike, while the writers continue. It may be nil.
	then func(r *round)
}

// faults are the kinds of faults. Seed n uses the fault with index n modulo their number.
var faults = []*fault{
	{name: "power", unexpected: anyError, act: (*writer).mixed, strike: cutPower},
	{name: "freeze", unexpected: anyError, act: (*writer).mixed, strike: freeze, then: goOn},
	{name: "power while frozen", unexpected: anyError, act: (*writer).mixed, strike: freeze, then: cutFrozen},
	{name: "failing writes", unexpected: noError, act: (*writer).mixed, strike: failWrites},
	{name: "bad sectors", unexpected: errorsOf(syscall.EIO), act: (*writer).hurtMixed, strike: badSectors(syscall.EIO), here: true},
	{name: "bad sectors, stable writes", unexpected: errorsOf(syscall.EIO), act: (*writer).hurtStable, strike: badSectors(syscall.EIO), slow: true, here: true},
	{name: "no space behind the file", unexpected: errorsOf(syscall.ENOSPC), act: (*writer).hurtMixed, strike: badSectors(syscall.ENOSPC), here: true},
	{name: "full", unexpected: noSpaceOnly, act: (*writer).mixed, strike: nothingYet, then: fillUp, early: true, here: true},
	{name: "power after idleness", unexpected: anyError, act: (*writer).overwrite, strike: nothingYet},
	{name: "none, idle files", unexpected: anyError, act: (*writer).inTurn, strike: nothingYet, long: true},
}

func nothingYet(*round, *Device) {}

// anyError is the function fault.unexpected for disks that do not fail: the server must not answer
// with any error.
func anyError(*round, string, *object, status) string { return "the disk did not fail" }

// noError is the function fault.unexpected for faults after which the server may answer any call
// with an error.
func noError(*round, string, *object, status) string { return "" }

func cutPower(r *round, d *Device) { d.cutLocked(r.survivors, r.random) }

func freeze(_ *round, d *Device) { d.freezeLocked() }

// stand waits until the writers seem to wait for the disk: until no call was answered for 200 ms.
func stand(r *round) {
	for last, same := r.answered.Load(), 0; same < 8; {
		time.Sleep(25 * time.Millisecond) // the interval need not be exact
		if now := r.answered.Load(); now == last {
			same++
		} else {
			last, same = now, 0
		}
	}
}

func goOn(r *round) {
	stand(r)
	r.device.thaw()
}

func cutFrozen(r *round) {
	stand(r)
	r.device.cut(r.survivors, r.random)
	r.device.thaw()
}

// failWrites makes writes, flushes or both fail: the next 1, 3 or 20 of them, or all.
func failWrites(r *round, d *Device) {
	left := []int{1, 3, 20, 1 << 30}[r.random.IntN(4)]
	writes, flushes := r.random.IntN(3) > 0, r.random.IntN(2) > 0
	if !writes && !flushes {
		writes = true
	}
	d.fails = func(q request) syscall.Errno {
		if left == 0 || q.kind == read || q.kind == write && !writes || q.kind == flush && !flushes {
			return 0
		}
		left--
		r.failed++
		return syscall.EIO
	}
}

// badTakes is the time that a write to a bad sector takes.
const badTakes = time.Millisecond / 2

// badSectors returns a function for the field fault.strike. This function makes all later writes to
// the blocks that have data of the shared file fail with errno.
func badSectors(errno syscall.Errno) func(r *round, d *Device) {
	return func(r *round, d *Device) {
		bad := make(map[int64]bool)
		var want [sectorSize]byte
		for _, n := range d.platter.find(func(b *block) bool {
			v, place := valueOf(b[:])
			if v == 0 || place>>32 != sharedTag {
				return false
			}
			v.fill(want[:], sharedTag, int(uint32(place)>>8), int(place&0xff))
			return string(want[:]) == string(b[:sectorSize])
		}) {
			bad[n] = true
		}
		if len(bad) == 0 {
			r.report("the disk has no data of the shared file: there is no fault")
		}
		d.fails = func(q request) syscall.Errno {
			if q.kind == write {
				for n := q.at / blockSize; n*blockSize < q.at+q.size; n++ {
					if bad[n] {
						r.failed++
						if r.fault.slow {
							time.Sleep(badTakes)
						}
						return errno
					}
				}
			}
			return 0
		}
	}
}

// errorsOf returns a function for the field fault.unexpected, for a disk that fails with errno. The
// function returns the reason why a call must not fail with s, or "". It allows EIO and ENOSPC, and
// only for calls that use the shared file. If errno is ENOSPC and fsync(2) of the file system
// returns the disk's own error (namesErrors), a WRITE must fail with ENOSPC.
func errorsOf(errno syscall.Errno) func(r *round, what string, o *object, s status) string {
	return func(r *round, what string, o *object, s status) string {
		switch {
		case o == nil || o.number != sharedTag:
			return "the disk failed another file's data alone"
		case errno == syscall.ENOSPC && r.filesystem.namesErrors && strings.HasPrefix(what, "WRITE") && s != statusNoSpc:
			return "the disk had no space"
		case s != statusIO && s != statusNoSpc:
			return fmt.Sprint("the disk failed with ", errno)
		}
		return ""
	}
}

func (w *writer) hurtMixed() {
	switch w.random.IntN(6) {
	case 0:
		w.write(w.shared, w.anyStability())
	case 1:
		w.setMode(w.shared)
	case 2:
		w.commitAny()
	default:
		w.mixed()
	}
}

// hurtStable makes UNSTABLE WRITEs to pages that are not adjacent, and then a FILE_SYNC WRITE to
// one of these pages.
func (w *writer) hurtStable() {
	for i := 0; i < sharedFor; i += 2 {
		w.writeAt(w.shared, i, 1, unstable)
	}
	w.writeAt(w.shared, 2*w.random.IntN(sharedFor/2), 1, fileSync)
}

// noSpaceOnly is the function fault.unexpected for full disks. A call that needs space must get
// the error for no space; a COMMIT may also get an input/output error. A repeated exclusive create
// must succeed if the first one succeeded, because it needs no space.
func noSpaceOnly(_ *round, what string, _ *object, s status) string {
	switch {
	case strings.HasSuffix(what, " again"):
		return "it had succeeded"
	case s != statusNoSpc && !(s == statusIO && strings.HasPrefix(what, "COMMIT")):
		return "the disk is full, no more"
	}
	return ""
}

// fillUp uses up all space of the file system. In half of the rounds it frees the space again,
// after the writers have made 250 calls.
func fillUp(r *round) {
	r.calling.Lock()
	dir := filepath.Join(r.mounted.dir, "filling")
	if err := os.Mkdir(dir, 0o700); err == nil {
		fillFiles(dir, "inode")
		fillBlocks(filepath.Join(dir, "blocks"))
		fillFiles(dir, "rest")
	}
	r.calling.Unlock()
	if r.random.IntN(2) > 0 {
		return
	}
	const enough = 250 // number of calls that the writers make on the full disk
	for until := r.answered.Load() + enough; r.answered.Load() < until; {
		select {
		case <-r.worked:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
	os.RemoveAll(dir)
}

// fillFiles creates up to 1,100 empty files, or fewer if the file system can create no more.
func fillFiles(dir, prefix string) {
	const most = 1100 // more than the number of inodes of the ext4 file system
	for i := range most {
		f, err := os.Create(filepath.Join(dir, fmt.Sprint(prefix, i)))
		if err != nil {
			return
		}
		f.Close()
	}
}

// fillBlocks creates a file that uses up all free blocks.
func fillBlocks(path string) {
	f, err := os.Create(path)
	if err != nil {
		if f, err = os.Create(filepath.Join(filepath.Dir(path), "inode0")); err != nil {
			return
		}
	}
	defer f.Close()
	at := int64(0)
	for size := int64(64 * mib); size >= blockSize; {
		if unix.Fallocate(int(f.Fd()), 0, at, size) != nil {
			size /= 4
		} else {
			at += size
		}
	}
}

// overwrite writes twice to each of the writer's files. It waits until all writers have done so and
// the daemon makes no more writes of its own. Then it commits each file.
func (w *writer) overwrite() {
	for _, o := range w.files {
		w.look(o)
		w.write(o, unstable)
		w.write(o, unstable)
	}
	w.round.written.Done()
	w.round.written.Wait()
	w.round.quiet()
	for _, o := range w.files {
		w.commit(o)
	}
	w.ended = true
}

// inTurn writes to each of the writer's files, and then commits each file.
func (w *writer) inTurn() {
	for _, o := range w.files {
		w.writeAt(o, 0, 1, unstable)
	}
	for _, o := range w.files {
		w.commit(o)
	}
}

// quiet waits until the daemon seems to make no more writes of its own: until the disk got no write
// and no flush for 300 ms.
func (r *round) quiet() {
	for last, same := -1, 0; same < 12; {
		time.Sleep(25 * time.Millisecond) // the interval need not be exact
		r.device.mu.Lock()
		now := r.device.requests
		r.device.mu.Unlock()
		if now == last {
			same++
		} else {
			last, same = now, 0
		}
	}
}

// pickSurvivors chooses which of the unflushed writes survive a power cut.
func pickSurvivors(r *rand.Rand) survivors {
	return []survivors{nothing, nothing, anything, anything, anything, all}[r.IntN(6)]
}

func syncfs(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}
