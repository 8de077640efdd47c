package rpc

import (
	"bytes"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// The Go runtime knows how many goroutines are ready to run, but not how many of its threads run, or wait for
// a processor, within a system call. A call that uses the processor there, for example to allocate pages of
// a tmpfs, delays others as much as one that computes.

// countEvery is the shortest time between two counts of threads. A count costs three system calls, and some
// ten microseconds, for each thread. So the executor counts only while a call runs for long (stuckAfter).
const countEvery = 50 * time.Millisecond

// runningThreads returns how many threads of this process run or wait for a processor; 0 if /proc does not say.
func runningThreads() (n int) {
	const tasks = "/proc/self/task/"
	d, err := os.Open(tasks)
	if err != nil {
		return 0
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	for _, name := range names {
		fd, err := unix.Open(tasks+name+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			continue // the thread has ended
		}
		var start [64]byte // the number, and the name of at most 15 bytes
		got, _ := unix.Read(fd, start[:])
		unix.Close(fd)
		// The state follows the program's name, which is in parentheses and may have others in it (proc(5)).
		b := start[:max(got, 0)]
		if i := bytes.LastIndexByte(b, ')'); i >= 0 && len(b) > i+2 && b[i+2] == 'R' {
			n++
		}
	}
	return n
}

// countThreads counts threads for the pace, without the executor's lock.
func (x *executor) countThreads() {
	defer x.wg.Done()
	x.pace.beyond.Store(int64(max(0, runningThreads()-x.pace.processors)))
}
