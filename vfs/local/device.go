package local

import (
	"sync"
	"sync/atomic"
)

// A device is a file system of the machine, which several FSs may show. The process owns it.
type device struct {
	failures atomic.Uint64 // the syncs that failed
	shown    map[*FS]struct{}
}

// deviceTable holds the devices of the FSs that are open, by st_dev.
type deviceTable struct {
	mu sync.Mutex
	m  map[uint64]*device
}

var devices = deviceTable{m: make(map[uint64]*device)}

// join returns the device that fs shows.
func (t *deviceTable) join(fs *FS) *device {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.m[fs.rootStat.Dev]
	if d == nil {
		d = &device{shown: make(map[*FS]struct{})}
		t.m[fs.rootStat.Dev] = d
	}
	d.shown[fs] = struct{}{}
	return d
}

// leave is for an FS that is closed. The file system may be another one when it is shown again.
func (t *deviceTable) leave(fs *FS) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if d := fs.device; d != nil {
		if delete(d.shown, fs); len(d.shown) == 0 {
			delete(t.m, fs.rootStat.Dev)
		}
	}
}

// moved is called when a directory of the file system dev got another parent through by.
func (t *deviceTable) moved(dev uint64, by *FS) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if d := t.m[dev]; d != nil {
		for fs := range d.shown {
			if fs != by && !fs.bounded {
				fs.moves.Add(1)
			}
		}
	}
}

// lost tells every client that data may be lost which it wrote through any FS and did not commit.
func (d *device) lost() {
	devices.mu.Lock()
	defer devices.mu.Unlock()
	for fs := range d.shown {
		fs.newVerifier()
	}
}
