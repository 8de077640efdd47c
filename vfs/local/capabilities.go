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

// capSets holds a thread's capability sets (capabilities(7)), one bit per capability.
type capSets struct{ effective, permitted, inheritable uint64 }

const (
	// switchCaps are needed to switch a thread's identity and to restore it.
	switchCaps = 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID
	// DropCapabilities gives up droppedCaps, because they make the kernel too lenient: with
	// CAP_FSETID a write keeps set-uid bits, and with CAP_SYS_RESOURCE it ignores quotas and a
	// file system's reserve.
	droppedCaps = 1<<unix.CAP_FSETID | 1<<unix.CAP_SYS_RESOURCE
	// fileCaps are all capabilities that override a file system's checks of permissions and
	// limits.
	fileCaps = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH | 1<<unix.CAP_FOWNER |
		1<<unix.CAP_LINUX_IMMUTABLE | 1<<unix.CAP_MKNOD | 1<<unix.CAP_MAC_OVERRIDE | droppedCaps
)

// The kernel's form of capSets has the lower 32 bits in the first element.
type capData [2]unix.CapUserData

func (c capSets) data() capData {
	return capData{
		{Effective: uint32(c.effective), Permitted: uint32(c.permitted), Inheritable: uint32(c.inheritable)},
		{Effective: uint32(c.effective >> 32), Permitted: uint32(c.permitted >> 32), Inheritable: uint32(c.inheritable >> 32)},
	}
}

func (d capData) sets() capSets {
	wide := func(low, high uint32) uint64 { return uint64(high)<<32 | uint64(low) }
	return capSets{
		wide(d[0].Effective, d[1].Effective), wide(d[0].Permitted, d[1].Permitted), wide(d[0].Inheritable, d[1].Inheritable),
	}
}

// unswitched holds the capabilities of a thread that does not act as a caller (see FS.as). init
// reads them before any thread can be switched.
var unswitched atomic.Pointer[capSets]

func init() {
	c, _ := rawCapget()
	unswitched.Store(&c)
}

// DropCapabilities permanently gives up CAP_FSETID and CAP_SYS_RESOURCE in every thread. From then
// on the kernel clears set-uid bits at each write and applies quotas to the daemon. A program calls
// it first, before it makes any FS. If the program contains C code, Go cannot change running
// threads. Then DropCapabilities executes the program again, with the same process ID and
// arguments, and with one more environment variable.
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
	h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
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

// dropByExec drops the capabilities from this thread and from the bounding set, and executes the
// program again.
func dropByExec(c capSets) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const again = "NFSRDMAD_CAPABILITIES_DROPPED"
	if os.Getenv(again) != "" {
		return errors.New("vfs/local: capabilities came back after they were dropped")
	}
	for _, one := range []uintptr{unix.CAP_FSETID, unix.CAP_SYS_RESOURCE} {
		// A failure matters only for user 0, because only user 0 regains the capabilities in the
		// bounding set by executing a program.
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
