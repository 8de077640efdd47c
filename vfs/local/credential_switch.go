package local

import (
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A switched thread has the caller's groups, fsgid and fsuid and, unless the
// caller is user 0, no capability but the two it takes to switch. The calls are
// raw: Go's own (and C's) would change every thread of the process.

// as runs f with c's identity and returns its error. EPERM, and f was not run:
// this process cannot become c. f may only make system calls: it
// starts no goroutine, and waits for none.
//
// The switched part runs on a goroutine of its own, which keeps its thread if
// that cannot be restored, and takes it along when it ends.
func (fs *FS) as(c *vfs.Cred, f func() error) error { return fs.asWith(c, 0, f) }

// asWith is as, and leaves the thread those capabilities in keep that the
// process has.
func (fs *FS) asWith(c *vfs.Cred, keep uint64, f func() error) error {
	if fs.asIs(c) {
		return f()
	}
	if !CanSwitch() {
		return syscall.EPERM
	}
	result := make(chan error, 1)
	onSwitched(func() (restored bool) {
		fs.stats.switches.Add(1)
		err := error(syscall.EPERM)
		if switchThread(c, &fs.self, keep) {
			err = f()
		} else {
			fs.stats.switchFailures.Add(1)
		}
		if restored = restoreThread(c, &fs.self); !restored {
			fs.stats.threadsRetired.Add(1)
		}
		result <- err
		return restored
	})
	return <-result
}

// asIs says that a thread of this process need not be switched to act as c:
// it is exactly c and holds nothing that c would not. Where no thread can be
// switched, every thread is the daemon's own identity, and a caller that asks
// for that or for less of it is served as it.
func (fs *FS) asIs(c *vfs.Cred) bool {
	if !CanSwitch() {
		return fs.self.within(c)
	}
	return fs.self.is(c) && (c.UID == 0 || unswitched.Load().effective&fileCaps == 0)
}

// switchThread makes the calling thread, which is locked, act as c. False: it
// does not, and is to be restored. Of the capabilities in keep it has those that
// the process may have. Each call that changes something costs
// microseconds, and one that only looks does not: what is right is left alone.
func switchThread(c *vfs.Cred, own *identity, keep uint64) bool {
	if groups := groupsToSet(c); len(groups) != 0 || len(own.groups) != 0 {
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
	// A process of user 0 loses the file system's capabilities by setfsuid
	// itself. What else it holds has no say in who may do what with files.
	is, err := rawCapget()
	if err == nil && c.UID != 0 && is.effective&fileCaps == keep {
		return true
	}
	return err == nil && is == want || rawCapset(want) == nil
}

// setThreadIDs sets fsgid and fsuid and looks whether they are so: the calls
// never say that they failed, and where only one id is mapped they always do.
func setThreadIDs(uid, gid uint32) bool {
	if rawSetfsid(unix.SYS_SETFSGID, noID) != gid {
		rawSetfsid(unix.SYS_SETFSGID, gid)
	}
	if rawSetfsid(unix.SYS_SETFSUID, noID) != uid {
		rawSetfsid(unix.SYS_SETFSUID, uid)
	}
	return rawSetfsid(unix.SYS_SETFSUID, noID) == uid && rawSetfsid(unix.SYS_SETFSGID, noID) == gid
}

// restoreThread gives the calling thread, which was switched to c, the daemon's
// identity back.
func restoreThread(c *vfs.Cred, own *identity) bool {
	if !setThreadIDs(own.uid, own.gid) {
		return false
	}
	all := unswitched.Load()
	if is, err := rawCapget(); err != nil || is != *all {
		if rawCapset(*all) != nil {
			return false
		}
	}
	return len(groupsToSet(c)) == 0 && len(own.groups) == 0 || rawSetgroups(own.groups) == nil
}

// groupsToSet are c's groups, or none where they only repeat its GID, which
// fsgid says already.
func groupsToSet(c *vfs.Cred) []uint32 {
	for _, g := range c.Groups {
		if g != c.GID {
			return c.Groups
		}
	}
	return nil
}

// noID is no user's: setting it only reads.
const noID = ^uint32(0)

// CanSwitch says whether this process can act as another user, and was found
// out by doing it.
func CanSwitch() bool { return canSwitch() }

var canSwitch = sync.OnceValue(func() bool {
	result := make(chan bool)
	onSwitched(func() (restored bool) {
		own := ownIdentity()
		can := false
		restored = true
		for _, id := range []uint32{65534, 1, 1000, 2} {
			if id == own.uid || id == own.gid {
				continue
			}
			c := vfs.Cred{UID: id, GID: id, Groups: []uint32{id}}
			can = switchThread(&c, &own, 0)
			// The main thread does not end with its goroutine: it must be put
			// right here too.
			if restored = restoreThread(&c, &own); can || !restored {
				break
			}
		}
		result <- can && restored
		return restored
	})
	return <-result
})
