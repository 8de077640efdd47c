package local

import (
	"sync"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// closing closes descriptors on a goroutine of its own, so that calls need not wait. The last
// close of a file may wait for the disk, to free a removed file's blocks, or for a file server in
// user space. A call with Op.Try must not wait for that.
type closing struct {
	mu      sync.Mutex
	queue   []func()
	running chan struct{} // closed when the closing goroutine ends; nil while none runs
}

// add queues f for the closing goroutine. It never waits.
func (c *closing) add(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = append(c.queue, f)
	if c.running == nil {
		c.running = make(chan struct{})
		go c.run(c.running)
	}
}

func (c *closing) run(done chan struct{}) {
	defer close(done)
	for {
		c.mu.Lock()
		queue := c.queue
		c.queue = nil
		if len(queue) == 0 {
			c.running = nil
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		for _, f := range queue {
			f()
		}
	}
}

// wait waits until the closing goroutine, if one runs, has called every queued function.
func (c *closing) wait() {
	c.mu.Lock()
	running := c.running
	c.mu.Unlock()
	if running != nil {
		<-running
	}
}

// giveBack releases a reference to n at the end of op. If that is the last one and op.Try is set,
// the closing goroutine closes n, because closing may block.
func (fs *FS) giveBack(op *vfs.Op, n *node) {
	if !op.Try {
		n.put()
	} else if n.release() {
		fs.closing.add(n.close)
	}
}

// giveBackFile releases a reference to f in the same way.
func (fs *FS) giveBackFile(op *vfs.Op, f *openFile) {
	if !op.Try {
		f.put()
	} else if f.refs.Add(-1) == 0 {
		fs.closing.add(f.close)
	}
}
