package local

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A switched thread has the caller's groups, fsgid and fsuid. Unless the caller is user 0, its effective
// capabilities are the two to switch back and those in keep (asWith). The system calls that switch it
// are raw, because the functions of Go and C would change every thread of the process.

// An identity is the daemon's own. Through it, threads act as callers. It knows no FS: its methods need
// no file.
type identity struct {
	self      vfs.Cred
	canSwitch bool   // see CanSwitch
	unmapped  uint32 // user ID of all unmapped users; see owns
	// switches counts the attempts to switch a thread, failures the failed ones, and retired the threads
	// that ended because they could not be switched back.
	switches, failures, retired atomic.Uint64
}

// init reads the identity of the process.
func (i *identity) init() { i.self, i.unmapped, i.canSwitch = Identity(), unmappedUser(), CanSwitch() }

// as runs f with c's identity, and returns its error. EPERM: this process cannot act as c,
// and f did not run. f may only make system calls: it starts no goroutine and waits for none.
//
// If a switch is needed, f runs on another goroutine, whose thread is switched. If the thread's
// identity cannot be restored afterwards, that goroutine keeps its thread locked, and the runtime
// ends the thread with the goroutine.
func (i *identity) as(c *vfs.Cred, f func() error) error { return i.asWith(c, 0, f) }

// asWith runs f like as. The argument keep is a set of capabilities; the thread also keeps
// those of them that the process is permitted to have.
func (i *identity) asWith(c *vfs.Cred, keep uint64, f func() error) error {
	if i.asIs(c) {
		return f()
	}
	if !i.canSwitch {
		return syscall.EPERM
	}
	result := make(chan error, 1)
	onSwitched(func() (restored bool) {
		i.switches.Add(1)
		err := error(syscall.EPERM)
		if switchThread(c, &i.self, keep) {
			err = f()
		} else {
			i.failures.Add(1)
		}
		if restored = restoreThread(c, &i.self); !restored {
			i.retired.Add(1)
		}
		result <- err
		return restored
	})
	return <-result
}

// callAs runs f like identity.as, and returns its results.
func callAs[T any](i *identity, c *vfs.Cred, f func() (T, error)) (result T, err error) {
	err = i.as(c, func() (err error) {
		result, err = f()
		return err
	})
	return result, err
}

// asIs reports whether a thread can act as c without a switch: its identity is exactly c's, and it
// has no more capabilities than c would have. If the process cannot switch threads, it is enough
// that c has the daemon's user and group, and no group that the daemon lacks.
func (i *identity) asIs(c *vfs.Cred) bool {
	if !within(c, &i.self) {
		return false
	}
	return !i.canSwitch || within(&i.self, c) && (c.UID == 0 || unswitched.Load().effective&fileCaps == 0)
}

// owns reports whether c owns a file with attributes st. In a user namespace all unmapped owners have the
// same ID; that ID owns nothing.
func (i *identity) owns(c *vfs.Cred, st *unix.Stat_t) bool {
	return c.UID == st.Uid && c.UID != i.unmapped
}

// switchThread makes the calling thread act as c. The thread is locked to its goroutine, and the
// caller has to restore it, even if switchThread returns false. For keep, see asWith. A call that
// changes an identity or a capability costs microseconds, so switchThread changes only what differs.
func switchThread(c *vfs.Cred, own *vfs.Cred, keep uint64) bool {
	if groups := groupsToSet(c); len(groups) != 0 || len(own.Groups) != 0 {
		if rawSetgroups(groups) != nil {
			return false
		}
	}
	if !setThreadIDs(c.UID, c.GID) {
		return false
	}
	all := unswitched.Load()
	keep &= all.permitted
	want := capSets{all.effective&switchCaps | keep, all.permitted, all.inheritable}
	if c.UID == 0 {
		want.effective = all.permitted &^ droppedCaps
	}
	// When setfsuid changes user 0 to another user, the kernel itself removes the file
	// capabilities from the thread. The remaining capabilities do not affect access to files.
	is, err := rawCapget()
	if err == nil && c.UID != 0 && is.effective&fileCaps == keep {
		return true
	}
	return err == nil && is == want || rawCapset(want) == nil
}

// setThreadIDs sets fsgid and fsuid, and reports whether that succeeded. It reads them back, because
// the system calls report no failure; if only one ID is mapped in the user namespace they always fail.
func setThreadIDs(uid, gid uint32) bool {
	if rawSetfsid(unix.SYS_SETFSGID, noID) != gid {
		rawSetfsid(unix.SYS_SETFSGID, gid)
	}
	if rawSetfsid(unix.SYS_SETFSUID, noID) != uid {
		rawSetfsid(unix.SYS_SETFSUID, uid)
	}
	return rawSetfsid(unix.SYS_SETFSUID, noID) == uid && rawSetfsid(unix.SYS_SETFSGID, noID) == gid
}

// restoreThread reports whether it gave the thread, which was switched to c, the daemon's identity again.
func restoreThread(c *vfs.Cred, own *vfs.Cred) bool {
	if !setThreadIDs(own.UID, own.GID) {
		return false
	}
	all := unswitched.Load()
	if is, err := rawCapget(); err != nil || is != *all {
		if rawCapset(*all) != nil {
			return false
		}
	}
	return len(groupsToSet(c)) == 0 && len(own.Groups) == 0 || rawSetgroups(own.Groups) == nil
}

// groupsToSet returns c's groups, or none if they only repeat its GID, which fsgid grants.
func groupsToSet(c *vfs.Cred) []uint32 {
	if slices.ContainsFunc(c.Groups, func(g uint32) bool { return g != c.GID }) {
		return c.Groups
	}
	return nil
}

// noID is no user's ID. Setting it changes nothing and returns the current ID.
const noID = ^uint32(0)

// CanSwitch reports whether this process can act as another user. The first call tries it.
func CanSwitch() bool { return canSwitch() }

var canSwitch = sync.OnceValue(func() bool {
	result := make(chan bool)
	onSwitched(func() (restored bool) {
		own := Identity()
		can := false
		restored = true
		for _, id := range []uint32{65534, 1, 1000, 2} {
			if id == own.UID || id == own.GID {
				continue
			}
			c := vfs.Cred{UID: id, GID: id, Groups: []uint32{id}}
			can = switchThread(&c, &own, 0)
			// The main thread does not end with its goroutine. So it must be restored here, too.
			if restored = restoreThread(&c, &own); can || !restored {
				break
			}
		}
		result <- can && restored
		return restored
	})
	return <-result
})

// within reports whether c has the user and the group of other, and no group that other lacks.
func within(c, other *vfs.Cred) bool {
	return c.UID == other.UID && c.GID == other.GID &&
		!slices.ContainsFunc(c.Groups, func(g uint32) bool { return !member(other, g) })
}

// member reports whether c has group g.
func member(c *vfs.Cred, g uint32) bool { return c.GID == g || slices.Contains(c.Groups, g) }

// switchedThreads are threads that do nothing but act as callers, with the callers' user and group
// IDs. They are used after KeepThreadsClean, which makes the process switch no other threads.
//
// The kernel never gives a switched thread its first credential back. A driver that compares the
// credentials of a call and of the opening of its file, as RDMA drivers do, then refuses the thread.
var switchedThreads struct {
	apart atomic.Bool
	idle  atomic.Int32
	work  chan func() bool
}

// idleThreads is the largest number of threads that wait for work. A switch on a waiting thread
// starts no new thread; each waiting thread takes some 10 KiB.
const idleThreads = 64

// KeepThreadsClean makes the process act as callers only on separate threads from now on, so that
// every other thread keeps its first credential. A program calls it before it opens any file system.
func KeepThreadsClean() {
	switchedThreads.work = make(chan func() bool)
	switchedThreads.apart.Store(true)
}

// onSwitched runs f, which switches its thread, on a thread that no other goroutine uses meanwhile.
// The thread ends unless f returns true, which means that the thread has the daemon's identity again.
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

// Identity returns the daemon's own identity. If CanSwitch is false, the server acts as this
// identity for every caller.
func Identity() vfs.Cred {
	id := vfs.Cred{UID: uint32(unix.Geteuid()), GID: uint32(unix.Getegid())}
	groups, _ := unix.Getgroups()
	for _, g := range groups {
		id.Groups = append(id.Groups, uint32(g))
	}
	return id
}

// unmappedUser returns the ID that stands for users who are not mapped into this process's user
// namespace, or noID if all users are mapped.
func unmappedUser() uint32 {
	var first, host, size uint64
	b, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return noID
	}
	if n, _ := fmt.Sscan(string(b), &first, &host, &size); n == 3 && first == 0 && host == 0 && size >= 1<<32-1 {
		return noID
	}
	id := uint64(65534)
	if b, err = os.ReadFile("/proc/sys/kernel/overflowuid"); err == nil {
		if v, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 32); err == nil {
			id = v
		}
	}
	return uint32(id)
}

// capSets holds a thread's capability sets (capabilities(7)), one bit per capability.
type capSets struct{ effective, permitted, inheritable uint64 }

const (
	// switchCaps are needed to switch a thread's identity and to restore it.
	switchCaps = 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID
	// DropCapabilities gives up droppedCaps, because they make the kernel too lenient: with
	// CAP_FSETID a write keeps set-uid bits, and with CAP_SYS_RESOURCE it ignores quotas and a
	// file system's reserve.
	droppedCaps = 1<<unix.CAP_FSETID | 1<<unix.CAP_SYS_RESOURCE
	// fileCaps are all capabilities that override a file system's checks of rights and limits.
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

// unswitched holds the capabilities of a thread that does not act as a caller (see identity.as). init
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
