package local

import (
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// right is a set of what the kernel judges separately.
type right uint8

// Rights, as access(2) numbers them.
const (
	mayExec  right = unix.X_OK
	mayWrite right = unix.W_OK
	mayRead  right = unix.R_OK
)

// A verdict is what the kernel said about a caller's rights on a file while the
// file's ctime was what it says: mode, owner and ACL cannot have changed since.
type verdict struct {
	caller uint32
	ctime  unix.Timespec
	known  right
	has    right
}

// verdicts are the latest on a node.
type verdicts struct {
	mu   sync.Mutex
	list [4]verdict
	next uint8
	// asked: the kernel has judged a caller since the node was made. What it
	// judges by is in memory then, and stays there while the node is held open:
	// an ACL may have been in a block of its own.
	asked atomic.Bool
}

func (v *verdicts) find(caller uint32, ctime unix.Timespec) (known, has right) {
	v.mu.Lock()
	for i := range v.list {
		if e := &v.list[i]; e.caller == caller && e.ctime == ctime {
			known, has = e.known, e.has
			break
		}
	}
	v.mu.Unlock()
	return known, has
}

func (v *verdicts) remember(caller uint32, ctime unix.Timespec, known, has right) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i := range v.list {
		if e := &v.list[i]; e.caller == caller {
			if e.ctime == ctime {
				known, has = known|e.known, has|e.has&^known
			}
			*e = verdict{caller, ctime, known, has}
			return
		}
	}
	v.list[v.next] = verdict{caller, ctime, known, has}
	v.next = (v.next + 1) % uint8(len(v.list))
}

// young: a ctime less than this ago may be shared by a change that is still to
// come, so that nothing is remembered by it.
const young = time.Second

// isOld says that no change from now on can have this ctime, which was read from
// the file. It is asked before that is looked at which is to be remembered: while
// a look waits for the disk, the ctime grows old.
//
// Where times are fine none can, however young the ctime is. A file system that
// stores whole seconds only (ext4 with inodes of 128 bytes) has no fine ones.
func (fs *FS) isOld(ctime unix.Timespec) bool {
	if fs.kind.fine && ctime.Nsec != 0 {
		return true
	}
	return fs.now().Sub(time.Unix(ctime.Unix())) >= young
}

// How old a ctime with fine times has to be for names to be remembered by it.
const (
	// tick is more than the coarse clock of any kernel stands. A removal or a link on
	// tmpfs gives the directory the time of the file that it is of, by that clock: mostly
	// that is the one which the directory had.
	tick = 20 * time.Millisecond
	// settling is how long a change may take. File systems set the ctime before the kernel
	// changes what it remembers of the names, which a look at one name asks without waiting
	// for the change. A listing waits for it.
	settling = 200 * time.Millisecond
)

// namesAreOld is isOld for the names in a directory, of which a ctime says less. least is
// tick for a listing, and settling for a look at a name.
func (fs *FS) namesAreOld(ctime unix.Timespec, least time.Duration) bool {
	if !fs.kind.fine || ctime.Nsec == 0 {
		least = young
	}
	return fs.now().Sub(time.Unix(ctime.Unix())) >= least
}

// rights answers which of want op's caller has on n, whose attributes st were
// just read.
func (fs *FS) rights(op *vfs.Op, n *node, st *unix.Stat_t, want right) (right, error) {
	caller := fs.callers.number(op.Cred)
	known, has := n.verdicts.find(caller, st.Ctim)
	if caller != 0 && known&want == want {
		fs.stats.verdictsRemembered.Add(1)
		return has & want, nil
	}
	if op.Try && !(fs.kind.memory && n.verdicts.asked.Load() && fs.asIs(op.Cred)) {
		return 0, vfs.ErrWouldBlock
	}
	old := fs.isOld(st.Ctim)
	fs.stats.verdicts.Add(1)
	has, err := fs.judge(op.Cred, n.fd, want)
	if err != nil {
		return 0, err
	}
	if !n.verdicts.asked.Load() {
		n.verdicts.asked.Store(true)
	}
	if caller != 0 && old {
		n.verdicts.remember(caller, st.Ctim, want, has)
	}
	return has, nil
}

// judge asks the kernel as the caller.
func (fs *FS) judge(c *vfs.Cred, fd int, want right) (right, error) {
	if fs.asIs(c) {
		return askKernel(fd, want)
	}
	var has right
	err := fs.as(c, func() (err error) {
		has, err = askKernel(fd, want)
		return err
	})
	return has, err
}

func askKernel(fd int, want right) (has right, err error) {
	for _, r := range [...]right{mayRead, mayWrite, mayExec} {
		if want&r == 0 {
			continue
		}
		switch err := sysFaccess(fd, uint32(r)); err {
		case nil:
			has |= r
		case syscall.EACCES, syscall.EPERM, syscall.EROFS, syscall.ETXTBSY:
		default:
			return 0, err
		}
	}
	return has, nil
}

// Access implements vfs.FileSystem.
func (fs *FS) Access(op *vfs.Op, h vfs.Handle, want vfs.Access, a *vfs.Attr) (vfs.Access, error) {
	n, err := fs.node(op, h)
	if err != nil {
		return 0, err
	}
	defer fs.giveBack(op, n)
	var st unix.Stat_t
	if err = fs.look(op, n, &st); err != nil {
		return 0, err
	}
	n.fill(a, &st)
	table := fileRights[:]
	switch n.typ {
	case vfs.Directory:
		table = dirRights[:]
	case vfs.Regular:
	default:
		table = specialRights[:]
	}
	var ask right
	for _, e := range table {
		if want&e.access != 0 {
			ask |= e.needs
		}
	}
	if ask == 0 {
		return 0, nil
	}
	has, err := fs.rights(op, n, &st, ask)
	if err != nil {
		return 0, err
	}
	if fs.readOnly && (n.typ == vfs.Regular || n.typ == vfs.Directory) {
		has &^= mayWrite
	}
	var granted vfs.Access
	for _, e := range table {
		if want&e.access != 0 && has&e.needs == e.needs {
			granted |= e.access
		}
	}
	return granted, nil
}

type accessNeed struct {
	access vfs.Access
	needs  right
}

// What ACCESS's rights take (RFC 1813 §3.3.4, RFC 8276 §8.3). DELETE is about a directory's
// entries, and means nothing for other files.
var (
	fileRights = [...]accessNeed{
		{vfs.AccessRead, mayRead}, {vfs.AccessModify, mayWrite}, {vfs.AccessExtend, mayWrite}, {vfs.AccessExecute, mayExec},
		{vfs.AccessXattrRead, mayRead}, {vfs.AccessXattrWrite, mayWrite}, {vfs.AccessXattrList, mayRead},
	}
	dirRights = [...]accessNeed{
		{vfs.AccessRead, mayRead}, {vfs.AccessLookup, mayExec}, {vfs.AccessModify, mayWrite | mayExec},
		{vfs.AccessExtend, mayWrite | mayExec}, {vfs.AccessDelete, mayWrite | mayExec},
		{vfs.AccessXattrRead, mayRead}, {vfs.AccessXattrWrite, mayWrite}, {vfs.AccessXattrList, mayRead},
	}
	specialRights = [...]accessNeed{
		{vfs.AccessRead, mayRead}, {vfs.AccessModify, mayWrite}, {vfs.AccessExtend, mayWrite},
	}
)
