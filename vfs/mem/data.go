package memfs

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
