package memfs

import "math"

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
