package memfs

import "math"

const (
	chunkSize = 64 << 10
	// minChunk is the smallest size of a chunk, in bytes. A chunk doubles until it is chunkSize.
	minChunk = 512
)

// fileData is a regular file's content. The mu of its node protects it. Bytes in chunks after the
// file's size are zero.
type fileData struct {
	// chunks holds the content by chunk number. Missing chunks, and the missing end of a short
	// chunk, are zeros.
	chunks  map[uint64][]byte
	pending // unsynced changes, which a Crash undoes
}

// read fills p with the bytes from offset off on.
func (d *fileData) read(off uint64, p []byte) {
	for len(p) > 0 {
		at := int(off % chunkSize)
		n := min(len(p), chunkSize-at)
		got := 0
		if c := d.chunks[off/chunkSize]; at < len(c) {
			got = copy(p[:n], c[at:])
		}
		clear(p[got:n])
		p, off = p[n:], off+uint64(n)
	}
}

// write copies p to the offset off until the file system's space runs out. It returns n, the
// number of bytes copied, and grown, the number of bytes of storage that it allocated.
func (d *fileData) write(f *FS, off uint64, p []byte) (n, grown int) {
	for n < len(p) {
		i, at := off/chunkSize, int(off%chunkSize)
		step := min(len(p)-n, chunkSize-at)
		c := d.chunks[i]
		if at+step > len(c) {
			more, ok := d.extend(f, i, at+step)
			if !ok {
				return n, grown
			}
			grown += more
			c = d.chunks[i]
		}
		if f.opt.Unsynced {
			d.remember(off, step, c)
		}
		copy(c[at:], p[n:n+step])
		n, off = n+step, off+uint64(step)
	}
	return n, grown
}

// extend makes chunk i at least n bytes long and returns the number of bytes of storage that it
// allocated. It returns false if there is not enough space.
func (d *fileData) extend(f *FS, i uint64, n int) (grown int, ok bool) {
	c := d.chunks[i]
	if n <= len(c) {
		return 0, true
	}
	size := chunkLen(n)
	if !f.reserve(size - len(c)) {
		return 0, false
	}
	bigger := make([]byte, size)
	copy(bigger, c)
	if d.chunks == nil {
		d.chunks = make(map[uint64][]byte)
	}
	d.chunks[i] = bigger
	return size - len(c), true
}

// chunkLen returns the size of a chunk that holds n bytes: minChunk times a power of two.
func chunkLen(n int) int {
	size := minChunk
	for size < n {
		size *= 2
	}
	return size
}

// cut removes the content beyond size and returns the number of bytes of storage that it freed.
func (d *fileData) cut(size uint64) (freed int) {
	edge, at := size/chunkSize, int(size%chunkSize)
	for i, c := range d.chunks {
		switch {
		case i > edge || i == edge && at == 0:
			freed += len(c)
			delete(d.chunks, i)
		case i == edge && at < len(c):
			keep := min(chunkLen(at), len(c))
			freed += len(c) - keep
			shorter := make([]byte, keep)
			copy(shorter, c[:at])
			d.chunks[i] = shorter
		}
	}
	return freed
}

// resize sets the size of n. A Crash does not undo it. The caller holds n.mu.
func (f *FS) resize(n *node, size uint64) {
	if size < n.attr.Size {
		freed := n.data.cut(size)
		n.attr.Used -= uint64(freed)
		f.bytes.Add(-int64(freed))
		n.data.forget(size)
	}
	n.attr.Size = size
	n.data.safeSize = size
}

// pageSize is the unit, in bytes, in which a Crash loses data.
const pageSize = 4096

// pending holds the data with which a Crash undoes a file's unsynced changes.
type pending struct {
	// safe holds the stable content, by page number, of each page that was written and not synced.
	// A page may be short: its missing end is zeros.
	safe map[uint64][]byte
	// safeSize is the file's size on stable storage.
	safeSize uint64
}

// remember saves the stable content of the pages that the next write of n bytes at off overwrites;
// c is the chunk that holds these pages.
func (p *pending) remember(off uint64, n int, c []byte) {
	if p.safe == nil {
		p.safe = make(map[uint64][]byte)
	}
	for i := off / pageSize; i <= (off+uint64(n)-1)/pageSize; i++ {
		if _, ok := p.safe[i]; ok {
			continue
		}
		at := int(i * pageSize % chunkSize)
		var old []byte
		if at < len(c) {
			old = append(old, c[at:min(at+pageSize, len(c))]...)
		}
		p.safe[i] = old
	}
}

// forget discards the stable content beyond size, because Crash does not undo a truncation.
func (p *pending) forget(size uint64) {
	for i, old := range p.safe {
		switch start := i * pageSize; {
		case start >= size:
			delete(p.safe, i)
		case start+uint64(len(old)) > size:
			p.safe[i] = old[:size-start]
		}
	}
}

// sync makes the pages between the offsets off and end stable. size is the file's size.
func (p *pending) sync(off, end, size uint64) {
	for i := range p.safe {
		if start := i * pageSize; start < end && start+pageSize > off {
			delete(p.safe, i)
		}
	}
	p.safeSize = max(p.safeSize, min(end, size))
}

// revert restores the stable content and size of n. The caller holds n.mu.
func (f *FS) revert(n *node) {
	d := n.data
	if len(d.safe) == 0 && d.safeSize == n.attr.Size {
		return
	}
	for i, old := range d.safe {
		off := i * pageSize
		c := d.chunks[off/chunkSize]
		if at := int(off % chunkSize); at < len(c) {
			page := c[at:min(at+pageSize, len(c))]
			clear(page[copy(page, old):])
		}
	}
	freed := d.cut(d.safeSize)
	n.attr.Used -= uint64(freed)
	f.bytes.Add(-int64(freed))
	n.attr.Size = d.safeSize
	d.safe = nil
	n.touch(f.now(), true)
}

// Crash simulates a power cut and the following restart. Data that was written and not synced is
// lost, all other data stays, every File is closed, and Verifier changes. With Options.Unsynced,
// each call of a method that takes an Op, except ReadDir, happens entirely before or after the
// Crash. Without it, all data counts as synced, so Crash loses none.
func (f *FS) Crash() {
	f.world.Lock()
	defer f.world.Unlock()
	f.nodes.all(func(n *node) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.opens, n.claimedBy, n.claims = nil, nil, nil
		if n.attr.Nlink == 0 && !n.gone {
			f.forget(n)
		}
		if n.data != nil && f.opt.Unsynced && !n.gone {
			f.revert(n)
		}
	})
	f.verifier.Add(math.MaxUint32)
}
