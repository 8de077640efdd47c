package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	modelPage    = 4096
	modelLongest = 1 << 20 // bytes of the file, at most
	modelMost    = 192 << 10
)

// A model is a file and what it must contain. One program works on a whole file, or several
// programs, on several machines, work on a part each: then none of them changes the file's size.
type model struct {
	path     string
	dice     *rand.Rand
	lo, hi   int64  // the part of the file that this program works on
	parts    int    // how many programs work on the file
	local    bool   // the file is on a local file system, where direct I/O must be aligned
	want     []byte // the bytes of the file; those outside of the part are not known
	buffered *os.File
	direct   *os.File
	append   *os.File
	refused  map[string]error // operations that are not supported: always the same error
	done     map[string]int   // how often each operation succeeded
	last     []string         // the last operations, for the report of a fault
	buffer   []byte           // what memory returns
}

// errNothing says that the file has no bytes for an operation.
var errNothing = errors.New("nothing to work on")

// modelOperations are the operations and how often each one is drawn.
var modelOperations = []struct {
	name string
	odds int
	size bool // it may change the file's size
	run  func(m *model) (string, error)
}{
	{"read", 14, false, (*model).read},
	{"write", 14, false, (*model).write},
	{"append", 4, true, (*model).appendTo},
	{"truncate", 4, true, (*model).truncate},
	{"allocate", 4, false, (*model).allocate},
	{"punch", 5, false, (*model).punch},
	{"zero", 4, false, (*model).zero},
	{"clone", 3, false, (*model).clone},
	{"copy", 4, false, (*model).copyRange},
	{"seek", 5, false, (*model).seek},
	{"map", 5, false, (*model).mapped},
	{"sync", 2, false, (*model).sync},
	{"reopen", 2, false, (*model).reopen},
	{"forget", 1, false, (*model).forget},
	{"verify", 1, false, (*model).verify},
}

// checkModel performs random operations on one file and compares what it reads, each size and each
// hole with a model. PART is the number of this program, from 0, and PARTS that of all programs
// that work on the file. The same seed makes the same operations.
func checkModel(path string, seed uint64, operations, part, parts int, local bool) error {
	m := &model{
		path: path, dice: rand.New(random(seed)), parts: parts, local: local,
		refused: map[string]error{}, done: map[string]int{}, want: make([]byte, 0, modelLongest),
	}
	// Two machines never share a page of the file: a client keeps and writes whole pages.
	size := modelLongest / int64(parts) / modelPage * modelPage
	m.lo, m.hi = int64(part)*size, int64(part+1)*size
	if parts > 1 {
		m.want = m.want[:modelLongest]
	}
	if _, err := m.reopen(); err != nil {
		return err
	}
	defer m.close()
	sum := 0
	for _, o := range modelOperations {
		sum += o.odds
	}
	for i := range operations {
		at := m.dice.IntN(sum)
		o := modelOperations[0]
		for _, o = range modelOperations {
			if at -= o.odds; at < 0 {
				break
			}
		}
		if o.size && parts > 1 {
			continue
		}
		what, err := o.run(m)
		m.last = append(m.last, fmt.Sprintf("%d: %s %s", i, o.name, what))
		m.last = m.last[max(0, len(m.last)-40):]
		if err == nil {
			m.done[o.name]++
			err = m.sameSize()
		} else if err == errNothing {
			continue
		}
		if err = m.tolerate(o.name, err); err != nil {
			return fmt.Errorf("operation %d of seed %d (to repeat: worker model %s %d %d %d %d %s), %s %s: %w\nthe operations before:\n%s",
				i, seed, path, seed, i+1, part, parts, where(local), o.name, what, err, strings.Join(m.last, "\n"))
		}
	}
	if _, err := m.verify(); err != nil {
		return fmt.Errorf("at the end of seed %d: %w", seed, err)
	}
	fmt.Printf("model: seed %d, %d operations, part %d of %d: %v, not supported: %v\n", seed, operations, part, parts, m.done, m.refused)
	return nil
}

func where(local bool) string {
	if local {
		return "local"
	}
	return "remote"
}

// tolerate accepts that an operation is not supported, if it never was.
func (m *model) tolerate(name string, err error) error {
	if err == nil {
		return nil
	}
	unsupported := errors.Is(err, unix.EOPNOTSUPP) || name == "clone" && (errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTTY))
	if !unsupported || m.done[name] > 0 || name == "read" || name == "write" {
		return err
	}
	m.refused[name] = err
	return nil
}

func (m *model) close() {
	for _, f := range []*os.File{m.buffered, m.direct, m.append} {
		if f != nil {
			f.Close()
		}
	}
}

func (m *model) reopen() (string, error) {
	m.close()
	var err error
	open := func(flags int) (f *os.File) {
		if err == nil {
			f, err = os.OpenFile(m.path, os.O_RDWR|os.O_CREATE|flags, 0o644)
		}
		return f
	}
	m.buffered, m.direct, m.append = open(0), open(syscall.O_DIRECT), open(os.O_APPEND)
	return "", err
}

func (m *model) sameSize() error {
	info, err := m.buffered.Stat()
	if err != nil {
		return err
	}
	if info.Size() != int64(len(m.want)) {
		return fmt.Errorf("the file has %d bytes, not %d", info.Size(), len(m.want))
	}
	return nil
}

// aRange draws a range of the part. It may lie beyond the end of the file.
func (m *model) aRange(align int64) (offset, length int64) {
	if align == 0 {
		align = []int64{1, 1, 512, modelPage}[m.dice.IntN(4)]
	}
	length = 1 + m.dice.Int64N([]int64{16, 5000, 70000, modelMost}[m.dice.IntN(4)])
	length = (length + align - 1) / align * align
	length = min(length, (m.hi-m.lo)/align*align)
	offset = m.lo + m.dice.Int64N(m.hi-m.lo-length+1)/align*align
	return offset, length
}

// file draws a descriptor, and returns how a range for it must be aligned; 0 for any way.
func (m *model) file() (f *os.File, name string, align int64) {
	if m.dice.IntN(2) == 0 {
		return m.buffered, "buffered", 0
	}
	if m.local {
		return m.direct, "direct", modelPage
	}
	return m.direct, "direct", 0
}

// memory returns a buffer that begins at a page, as local direct I/O needs. It has other bytes than
// the file is likely to have. The next call uses the same memory, because a user-mode kernel spends
// much time on each new page of a program.
func (m *model) memory(length int64) []byte {
	if m.buffer == nil {
		var err error
		if m.buffer, err = unix.Mmap(-1, 0, modelLongest, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON); err != nil {
			panic(err)
		}
	}
	b := m.buffer[:length]
	for i := range b {
		b[i] = 0xa5
	}
	return b
}

func (m *model) fill(b []byte) {
	seed := m.dice.Uint64()
	random(seed).Read(b)
}

func (m *model) read() (string, error) {
	f, name, align := m.file()
	offset, length := m.aRange(align)
	what := fmt.Sprintf("%s %d+%d", name, offset, length)
	b := m.memory(length)
	n, err := f.ReadAt(b, offset)
	if err != nil && err != io.EOF {
		return what, err
	}
	end := min(offset+length, int64(len(m.want)))
	return what, sameBytes(b[:n], m.want[min(offset, end):end], offset)
}

// put stores bytes in the model. The gap behind the former end has zeros.
func (m *model) put(b []byte, offset int64) {
	m.grow(offset + int64(len(b)))
	copy(m.want[offset:], b)
}

func (m *model) grow(size int64) {
	if end := int64(len(m.want)); size > end {
		m.want = m.want[:size]
		clear(m.want[end:])
	}
}

func (m *model) write() (string, error) {
	f, name, align := m.file()
	offset, length := m.aRange(align)
	what := fmt.Sprintf("%s %d+%d", name, offset, length)
	b := m.memory(length)
	m.fill(b)
	if n, err := f.WriteAt(b, offset); err != nil {
		return what, fmt.Errorf("%d written: %w", n, err)
	}
	m.put(b, offset)
	return what, nil
}

func (m *model) appendTo() (string, error) {
	_, length := m.aRange(0)
	length = min(length, modelLongest-int64(len(m.want)))
	b := m.memory(length)
	m.fill(b)
	what := fmt.Sprint(length)
	if n, err := m.append.Write(b); err != nil {
		return what, fmt.Errorf("%d written: %w", n, err)
	}
	m.put(b, int64(len(m.want)))
	return what, nil
}

func (m *model) truncate() (string, error) {
	size := m.dice.Int64N(modelLongest)
	if m.dice.IntN(3) == 0 {
		size = size / modelPage * modelPage
	}
	what := fmt.Sprintf("to %d", size)
	if err := m.buffered.Truncate(size); err != nil {
		return what, err
	}
	m.want = m.want[:min(size, int64(len(m.want)))]
	m.grow(size)
	return what, nil
}

func (m *model) allocate() (string, error) {
	offset, length := m.aRange(0)
	mode := uint32(0)
	if m.local && m.dice.IntN(2) == 0 {
		mode = unix.FALLOC_FL_KEEP_SIZE
	}
	what := fmt.Sprintf("%d+%d mode %d", offset, length, mode)
	if err := unix.Fallocate(int(m.buffered.Fd()), mode, offset, length); err != nil {
		return what, err
	}
	if mode == 0 {
		m.grow(offset + length)
	}
	return what, nil
}

func (m *model) erase(offset, length int64) {
	end := min(offset+length, int64(len(m.want)))
	clear(m.want[min(offset, end):end])
}

func (m *model) punch() (string, error) {
	offset, length := m.aRange(0)
	what := fmt.Sprintf("%d+%d", offset, length)
	if err := unix.Fallocate(int(m.buffered.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, offset, length); err != nil {
		return what, err
	}
	m.erase(offset, length)
	return what, nil
}

func (m *model) zero() (string, error) {
	offset, length := m.aRange(0)
	what := fmt.Sprintf("%d+%d", offset, length)
	if err := unix.Fallocate(int(m.buffered.Fd()), unix.FALLOC_FL_ZERO_RANGE, offset, length); err != nil {
		return what, err
	}
	m.grow(offset + length)
	m.erase(offset, length)
	return what, nil
}

// twoRanges draws a source within the file and a destination of the same length that does not
// overlap it. ok is false if the file is too short.
func (m *model) twoRanges(align int64) (from, to, length int64, ok bool) {
	end := min(m.hi, int64(len(m.want)))
	if end-m.lo < 2*align {
		return 0, 0, 0, false
	}
	length = align + m.dice.Int64N((end-m.lo)/2)
	length = min(length/align*align, modelMost)
	from = m.lo + m.dice.Int64N(end-m.lo-length+1)/align*align
	to = m.lo + m.dice.Int64N(m.hi-m.lo-length+1)/align*align
	return from, to, length, length > 0 && (to >= from+length || to+length <= from)
}

func (m *model) clone() (string, error) {
	from, to, length, ok := m.twoRanges(modelPage)
	if !ok {
		return "", errNothing
	}
	what := fmt.Sprintf("%d+%d to %d", from, length, to)
	err := unix.IoctlFileCloneRange(int(m.buffered.Fd()), &unix.FileCloneRange{
		Src_fd: int64(m.buffered.Fd()), Src_offset: uint64(from), Src_length: uint64(length), Dest_offset: uint64(to),
	})
	if err != nil {
		return what, err
	}
	m.put(m.want[from:from+length], to)
	return what, nil
}

func (m *model) copyRange() (string, error) {
	from, to, length, ok := m.twoRanges(1)
	if !ok {
		return "", errNothing
	}
	what := fmt.Sprintf("%d+%d to %d", from, length, to)
	in, out := from, to
	n, err := unix.CopyFileRange(int(m.buffered.Fd()), &in, int(m.buffered.Fd()), &out, int(length), 0)
	if err != nil {
		return what, err
	}
	if n <= 0 || int64(n) > length {
		return what, fmt.Errorf("%d bytes are copied", n)
	}
	m.put(m.want[from:from+int64(n)], to)
	return fmt.Sprintf("%s: %d", what, n), nil
}

// seek looks for data and for a hole from an offset. What lies before the data, and in the hole, must
// be zeros.
func (m *model) seek() (string, error) {
	offset, _ := m.aRange(0)
	what := fmt.Sprint("from ", offset)
	end := min(int64(len(m.want)), m.hi)
	for _, whence := range []int{unix.SEEK_DATA, unix.SEEK_HOLE} {
		at, err := unix.Seek(int(m.buffered.Fd()), offset, whence)
		switch {
		case errors.Is(err, unix.ENXIO) && offset >= int64(len(m.want)):
		case errors.Is(err, unix.ENXIO) && whence == unix.SEEK_DATA:
			at = end
			err = nil
		case err == nil && offset >= int64(len(m.want)):
			return what, fmt.Errorf("seek %d beyond the end answers %d", whence, at)
		}
		switch {
		case errors.Is(err, unix.ENXIO):
		case err != nil:
			return what, fmt.Errorf("seek %d: %w", whence, err)
		case at < offset || at > int64(len(m.want)):
			return what, fmt.Errorf("seek %d answers %d in a file of %d bytes", whence, at, len(m.want))
		case whence == unix.SEEK_DATA:
			if err := zeros(m.want, offset, min(at, end)); err != nil {
				return what, fmt.Errorf("the next data is said to be at %d: %w", at, err)
			}
		case at < end: // a hole that is told is no data, at its first byte at least
			if err := zeros(m.want, at, at+1); err != nil {
				return what, fmt.Errorf("a hole is said to be at %d: %w", at, err)
			}
		}
	}
	return what, nil
}

func zeros(b []byte, from, to int64) error {
	for i := from; i < to; i++ {
		if b[i] != 0 {
			return fmt.Errorf("the byte at %d is %#x, not in a hole", i, b[i])
		}
	}
	return nil
}

// mapped reads and changes bytes of the file through a shared mapping.
func (m *model) mapped() (string, error) {
	offset, length := m.aRange(0)
	if end := min(m.hi, int64(len(m.want))); offset+length > end {
		if length = end - offset; length <= 0 {
			return "", errNothing
		}
	}
	what := fmt.Sprintf("%d+%d", offset, length)
	start := offset / modelPage * modelPage
	b, err := unix.Mmap(int(m.buffered.Fd()), start, int(offset+length-start), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return what, err
	}
	defer unix.Munmap(b)
	if err := sameBytes(b[offset-start:], m.want[offset:offset+length], offset); err != nil {
		return what, err
	}
	if m.dice.IntN(2) == 0 {
		return what + " read", nil
	}
	m.fill(b[offset-start:])
	copy(m.want[offset:], b[offset-start:])
	// Direct I/O does not see what a mapping changed before it is written out.
	return what + " written", unix.Msync(b, unix.MS_SYNC)
}

func (m *model) sync() (string, error) { return "", m.buffered.Sync() }

// forget drops the file's pages on this machine, so that the next reads go to the server, or to the
// disk.
func (m *model) forget() (string, error) {
	if err := m.buffered.Sync(); err != nil {
		return "", err
	}
	return "", unix.Fadvise(int(m.buffered.Fd()), 0, 0, unix.FADV_DONTNEED)
}

func (m *model) verify() (string, error) {
	end := min(m.hi, int64(len(m.want)))
	if end <= m.lo {
		return "", nil
	}
	b := m.memory(end - m.lo)
	n, err := m.buffered.ReadAt(b, m.lo)
	if err != nil && err != io.EOF {
		return "", err
	}
	return "", sameBytes(b[:n], m.want[m.lo:end], m.lo)
}
