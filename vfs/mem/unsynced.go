package memfs

import "math"

// pageSize is the unit in which a power cut loses data.
const pageSize = 4096

// pending is what a file has written and not synced.
type pending struct {
	// safe holds the stable content of each page that has changed since. A page may be short: the
	// missing end is zeros.
	safe map[uint64][]byte
	// safeSize is the size on stable storage.
	safeSize uint64
}

// remember keeps the stable content of the pages that n bytes at off are about
// to overwrite; c is the chunk they are in.
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

// forget makes a cut at size stable.
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

// sync makes the pages from off to end stable, of a file of the given size.
func (p *pending) sync(off, end, size uint64) {
	for i := range p.safe {
		if start := i * pageSize; start < end && start+pageSize > off {
			delete(p.safe, i)
		}
	}
	p.safeSize = max(p.safeSize, min(end, size))
}

// revert restores the stable state of n. The caller holds n.mu.
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

// Crash is a power cut and the start after it: data that was written and not
// synced is gone, everything else is there, and Verifier has changed. Calls
// happen before or after it, never in between. Without Options.Unsynced
// everything is always synced, and Crash is a restart. No File is open behind it.
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
