package local

import (
	"runtime"
	"sync/atomic"
)

// switchedThreads are threads that do nothing but act as callers, with the callers' user and group
// IDs. They are used after KeepThreadsClean, which makes the process switch no other threads.
//
// Each switch gives a thread a new credential, and switching back makes another one: the kernel
// never gives a thread its first credential back. A driver that compares the credential of a call
// with the credential that opened its file, as RDMA drivers do, refuses such a thread from then
// on.
var switchedThreads struct {
	apart atomic.Bool
	idle  atomic.Int32
	work  chan func() bool
}

// idleThreads is the largest number of threads that wait for work. A switch on a waiting thread
// starts no new thread; each waiting thread takes some 10 KiB.
const idleThreads = 64

// KeepThreadsClean makes the process act as callers only on separate threads from now on, so that
// every other thread keeps the credential that the process began with. A program calls it before
// it opens any file system.
func KeepThreadsClean() {
	switchedThreads.work = make(chan func() bool)
	switchedThreads.apart.Store(true)
}

// onSwitched runs f, which switches its thread, on a thread that no other goroutine uses
// meanwhile. f returns true if the thread has the daemon's identity again; otherwise the thread
// ends.
func onSwitched(f func() (restored bool)) {
	t := &switchedThreads
	if !t.apart.Load() {
		go func() {
			runtime.LockOSThread()
			if f() {
				runtime.UnlockOSThread()
			}
		}()
		return
	}
	select {
	case t.work <- f:
	default:
		go serveSwitched(f)
	}
}

// serveSwitched runs f, and then functions from the channel switchedThreads.work, on one thread.
// The thread ends when serveSwitched returns.
func serveSwitched(f func() bool) {
	runtime.LockOSThread()
	t := &switchedThreads
	for f() {
		if t.idle.Add(1) > idleThreads {
			t.idle.Add(-1)
			return
		}
		f = <-t.work
		t.idle.Add(-1)
	}
}
