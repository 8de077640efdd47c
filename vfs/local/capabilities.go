package local

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// capSets are a thread's capabilities (capabilities(7)), a bit each.
type capSets struct{ effective, permitted, inheritable uint64 }

const (
	// switchCaps are what it takes to switch a thread and to switch it back.
	switchCaps = 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID
	// droppedCaps are what the daemon is better off without: writing with
	// CAP_FSETID keeps set-uid bits, and CAP_SYS_RESOURCE ignores quotas and
	// what a file system holds in reserve.
	droppedCaps = 1<<unix.CAP_FSETID | 1<<unix.CAP_SYS_RESOURCE
	// fileCaps are all that override what a file system says about a caller.
	fileCaps = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH | 1<<unix.CAP_FOWNER |
		1<<unix.CAP_LINUX_IMMUTABLE | 1<<unix.CAP_MKNOD | 1<<unix.CAP_MAC_OVERRIDE | droppedCaps
)

type capHeader struct {
	version uint32
	pid     int32
}

type capData [2]struct{ effective, permitted, inheritable uint32 }

func (c capSets) data() capData {
	return capData{
		{uint32(c.effective), uint32(c.permitted), uint32(c.inheritable)},
		{uint32(c.effective >> 32), uint32(c.permitted >> 32), uint32(c.inheritable >> 32)},
	}
}

// sets is the reverse of data.
func (d capData) sets() capSets {
	wide := func(lo, hi uint32) uint64 { return uint64(hi)<<32 | uint64(lo) }
	return capSets{
		wide(d[0].effective, d[1].effective), wide(d[0].permitted, d[1].permitted), wide(d[0].inheritable, d[1].inheritable),
	}
}

// unswitched is what the process's threads hold when they are not switched. It
// is read before any thread can have been.
var unswitched atomic.Pointer[capSets]

func init() {
	c, _ := rawCapget()
	unswitched.Store(&c)
}

// DropCapabilities gives up CAP_FSETID and CAP_SYS_RESOURCE in every thread and
// for good, so that the kernel takes set-uid bits away at each write and holds
// the daemon to quotas. It is to be called first thing in a program, before
// any FS is made. Where the program contains C code, Go offers no way to
// change threads that run already, and the program is executed anew, by the
// same name and with the same arguments, environment and process id.
func DropCapabilities() error {
	c, err := rawCapget()
	if err != nil {
		return fmt.Errorf("vfs/local: reading capabilities: %w", err)
	}
	if (c.effective|c.permitted)&droppedCaps == 0 {
		return nil
	}
	c.effective &^= droppedCaps
	c.permitted &^= droppedCaps
	c.inheritable &^= droppedCaps
	h := capHeader{version: unix.LINUX_CAPABILITY_VERSION_3}
	d := c.data()
	_, _, e := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&h)), uintptr(unsafe.Pointer(&d)), 0)
	runtime.KeepAlive(&h)
	runtime.KeepAlive(&d)
	switch {
	case e == 0:
		unswitched.Store(&c)
		return nil
	case !errors.Is(e, syscall.ENOTSUP):
		return fmt.Errorf("vfs/local: dropping capabilities: %w", e)
	}
	return dropByExec(c)
}

// dropByExec drops them from this thread and from the set that bounds what a
// program gets, and executes the program again.
func dropByExec(c capSets) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const again = "NFSRDMAD_CAPABILITIES_DROPPED"
	if os.Getenv(again) != "" {
		return errors.New("vfs/local: capabilities came back after they were dropped")
	}
	for _, one := range []uintptr{unix.CAP_FSETID, unix.CAP_SYS_RESOURCE} {
		// Only user 0 gets back what the bounding set allows.
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, one, 0, 0, 0); err != nil && os.Geteuid() == 0 {
			return fmt.Errorf("vfs/local: dropping a capability needs CAP_SETPCAP: %w", err)
		}
	}
	if err := rawCapset(c); err != nil {
		return fmt.Errorf("vfs/local: dropping capabilities: %w", err)
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	return syscall.Exec(exe, os.Args, append(os.Environ(), again+"=1"))
}
