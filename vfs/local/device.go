package local

import (
	"sync"
	"sync/atomic"
)

// A device is one file system of this machine, identified by st_dev. Several FSs of the process
// may show it.
type device struct {
	failures atomic.Uint64    // number of failed syncs
	shown    map[*FS]struct{} // the FSs that show it
}

// deviceTable holds the devices of all open FSs, by st_dev.
type deviceTable struct {
	mu sync.Mutex
	m  map[uint64]*device
}

var devices = deviceTable{m: make(map[uint64]*device)}

// join adds fs to its device and returns the device.
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

// leave removes a closed FS from its device. If the device then has no FS, leave removes the device
// from the table, because its st_dev may mean another file system later.
func (t *deviceTable) leave(fs *FS) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if d := fs.device; d != nil {
		if delete(d.shown, fs); len(d.shown) == 0 {
			delete(t.m, fs.rootStat.Dev)
		}
	}
}

// moved increments FS.moves of the FSs on the file system dev, so that they check again where
// their directories lie. It is called after a rename that gave, or may have given, a directory
// another parent. The last argument is the FS that made the rename; its own FS.moves stays.
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

// lost changes the verifier of every FS of the device: uncommitted data that clients wrote
// through any of them may be lost.
func (d *device) lost() {
	devices.mu.Lock()
	defer devices.mu.Unlock()
	for fs := range d.shown {
		fs.newVerifier()
	}
}
