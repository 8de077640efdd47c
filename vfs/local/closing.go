package local

import (
	"sync"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// closing closes descriptors beside the calls that gave them up. The last close
// of a file may wait for the disk: it frees a removed file's blocks, and a server
// in user space is asked about it. A goroutine that tries a call must not wait
// for that.
type closing struct {
	mu      sync.Mutex
	queue   []func()
	running chan struct{} // closed when the goroutine that closes ends; nil: there is none
}

// add has f called by another goroutine. It never waits.
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

// wait returns when all is closed that was to be closed before.
func (c *closing) wait() {
	c.mu.Lock()
	running := c.running
	c.mu.Unlock()
	if running != nil {
		<-running
	}
}

// giveBack gives n back at the end of op.
func (fs *FS) giveBack(op *vfs.Op, n *node) {
	if !op.Try {
		n.put()
	} else if n.release() {
		fs.closing.add(n.close)
	}
}

// giveBackFile gives f back at the end of op.
func (fs *FS) giveBackFile(op *vfs.Op, f *openFile) {
	if !op.Try {
		f.put()
	} else if f.refs.Add(-1) == 0 {
		fs.closing.add(f.close)
	}
}
