package local

import (
	"runtime"
	"sync/atomic"
)

// switchedThreads are the threads that act as callers, and do nothing else, where the
// process's other threads are to be kept clean.
//
// Each switch gives a thread a credential of its own, and switching back makes another
// one: the kernel never gives a thread its first credential back. A driver that compares
// the caller's credential with the opener's, as RDMA's do, refuses such a thread for ever.
var switchedThreads struct {
	apart atomic.Bool
	idle  atomic.Int32
	work  chan func() bool
}

// idleThreads is how many threads wait for work. A switch on one that waits costs no new
// thread; each takes some 10 KiB.
const idleThreads = 64

// KeepThreadsClean has callers' work done on threads of its own from now on, so that every
// other thread keeps the credential that the process began with. It is called before any
// file system is opened.
func KeepThreadsClean() {
	switchedThreads.work = make(chan func() bool)
	switchedThreads.apart.Store(true)
}

// onSwitched runs f, which switches its thread, on a thread that nobody else uses meanwhile.
// f says whether the thread has the daemon's identity again: otherwise the thread ends.
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

// serveSwitched does f and what comes after it. Its thread ends with it.
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
