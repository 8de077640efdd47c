package local

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// right is a set of rights, as bits. The kernel checks each of them separately.
type right uint8

// Rights, with the numbers of access(2).
const (
	mayExec  right = unix.X_OK
	mayWrite right = unix.W_OK
	mayRead  right = unix.R_OK
)

// A verdict is the kernel's answer about a caller's rights on a file. The field change is the
// file's Change at that time. The verdict is used only while the file still has this Change,
// because a change of the mode, the owner or the ACL gives the file another one.
type verdict struct {
	caller caller
	change uint64
	round  uint32 // round of the sweeper (one a second) when the kernel was asked
	known  right  // the rights that the kernel was asked for, without those that a read-only mount refused
	has    right  // the rights that the caller has, of those in known
}

// A caller identifies a vfs.Cred in few bytes. groups is a keyed hash; so if it were the same for two
// callers, one could get only the rights of another group of the same user.
type caller struct {
	uid, gid uint32
	groups   uint64
}

// callerSeed keys the hashes of callers' groups. No peer knows it.
var callerSeed = maphash.MakeSeed()

func callerOf(c *vfs.Cred) caller {
	groups := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(c.Groups))), 4*len(c.Groups))
	return caller{c.UID, c.GID, maphash.Bytes(callerSeed, groups)}
}

// askAnew is the age, in rounds of the sweeper (seconds), from which a verdict is no longer used.
// Without a limit, a verdict could stay wrong: a change by another program may set the ctime before
// the kernel is asked, and take effect afterwards.
const askAnew = 3

// verdicts holds the latest verdicts about a node's file.
type verdicts struct {
	mu   sync.Mutex
	list [4]verdict
	next uint8
	// asked is true if the kernel has checked rights on this file since the node was made. Since
	// then the data for such checks, for example an ACL in a disk block of its own, is in memory;
	// it stays there while the node is open.
	asked atomic.Bool
}

// holds reports whether e is about the caller by and about n's present state, and not too old.
func (e *verdict) holds(n *node, by caller) bool {
	return e.caller == by && roundsSince(n.fs.nodes.round.Load(), e.round) < askAnew && n.inode.version.still(e.change)
}

// findVerdict returns the remembered verdict about the caller by and n: the rights that the kernel was
// asked for (known), and those of them that it granted (has). Both are 0 if there is none. The
// caller of findVerdict has just read n's attributes.
func (n *node) findVerdict(by caller) (known, has right) {
	v := &n.verdicts
	v.mu.Lock()
	defer v.mu.Unlock()
	for i := range v.list {
		if e := &v.list[i]; e.holds(n, by) {
			return e.known, e.has
		}
	}
	return 0, 0
}

// remember stores the argument in n's list of verdicts, where it replaces an older verdict about
// the same caller. If the older one has the same Change and is from the same round of the sweeper,
// remember adds to the new verdict the rights that only the older one covers.
func (n *node) remember(said verdict) {
	v := &n.verdicts
	v.mu.Lock()
	defer v.mu.Unlock()
	at := &v.list[v.next]
	for i := range v.list {
		if e := &v.list[i]; e.caller == said.caller {
			at = e
		}
	}
	switch {
	case at.caller != said.caller:
		v.next = (v.next + 1) % uint8(len(v.list))
	case at.change == said.change && at.round == said.round:
		said.known, said.has = said.known|at.known, said.has|at.has&^said.known
	}
	*at = said
}

// settled reports whether the ctime in l is so old that every change from now on will alter it,
// even if the file system's times are coarse. A caller calls it before it reads the data that it
// will remember: while that read waits for the disk, a ctime that was too recent becomes old enough.
func (fs *FS) settled(l *look) bool {
	return fs.now().Sub(time.Unix(l.Ctim.Unix())) >= grainOf(l.Ctim.Nsec)
}

// rights returns the subset of want that op's caller has on n. The third argument holds n's
// attributes, which the caller has just read; rights may read them again.
func (fs *FS) rights(op *vfs.Op, n *node, is *look, want right) (right, error) {
	by := callerOf(op.Cred)
	known, has := n.findVerdict(by)
	if known&want == want {
		fs.stats.verdictsRemembered.Add(1)
		return has & want, nil
	}
	if op.Try && !(fs.kind.memory && n.verdicts.asked.Load() && fs.identity.asIs(op.Cred)) {
		return 0, vfs.ErrWouldBlock
	}
	said := verdict{caller: by, round: fs.nodes.round.Load(), change: is.change, known: want}
	last := is.still && fs.settled(is)
	fs.stats.verdicts.Add(1)
	var err error
	if fs.identity.asIs(op.Cred) { // without callAs, nothing is allocated
		has, err = fs.askKernel(n.fd, want)
	} else {
		has, err = callAs(&fs.identity, op.Cred, func() (right, error) { return fs.askKernel(n.fd, want) })
	}
	if err != nil {
		return 0, err
	}
	if has&mayWrite == 0 && fs.mountIsReadOnly() {
		said.known &^= mayWrite // no change of the file shows that the mount is made writable
	}
	if !n.verdicts.asked.Load() {
		n.verdicts.asked.Store(true)
	}
	if last && n.stat(is) == nil && is.still && is.change == said.change {
		said.has = has
		n.remember(said)
	}
	return has, nil
}

// require returns an error if the caller has none of the rights in want: EACCES, or EROFS for a right
// to write in a read-only mount.
func (fs *FS) require(op *vfs.Op, n *node, is *look, want right) error {
	has, err := fs.rights(op, n, is, want)
	if err == nil && has == 0 {
		err = fs.refusal(want)
	}
	return err
}

// refusal returns the error of a caller that has none of the rights in want.
func (fs *FS) refusal(want right) error {
	if want == mayWrite && fs.mountIsReadOnly() {
		return syscall.EROFS
	}
	return syscall.EACCES
}

// mountIsReadOnly reports whether the kernel has refused a right to write in this round of the
// sweeper (a second), because the mount is read-only.
func (fs *FS) mountIsReadOnly() bool { return fs.refusedAt.Load() == fs.nodes.round.Load()+1 }

// askKernel returns the subset of want that the calling thread has.
func (fs *FS) askKernel(fd int, want right) (has right, err error) {
	for _, r := range [...]right{mayRead, mayWrite, mayExec} {
		if want&r == 0 {
			continue
		}
		switch err := sysFaccess(fd, uint32(r)); err {
		case nil:
			if has |= r; r == mayWrite && fs.refusedAt.Load() != 0 {
				fs.refusedAt.Store(0)
			}
		case syscall.EROFS:
			fs.refusedAt.Store(fs.nodes.round.Load() + 1)
		case syscall.EACCES, syscall.EPERM, syscall.ETXTBSY:
		default:
			return 0, err
		}
	}
	return has, nil
}

// Access implements vfs.FileSystem.
func (fs *FS) Access(op *vfs.Op, h vfs.Handle, want vfs.Access, a *vfs.Attr) (vfs.Access, error) {
	var is look
	n, err := fs.lookAt(op, h, &is)
	if err != nil {
		return 0, err
	}
	defer fs.giveBack(op, n)
	n.fill(a, &is)
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
	if (fs.readOnly || fs.mountIsReadOnly()) && (n.typ == vfs.Regular || n.typ == vfs.Directory) {
		ask &^= mayWrite // so that the verdict about the other rights is remembered
	}
	has, err := fs.rights(op, n, &is, ask)
	if err != nil {
		return 0, err
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

// These tables list, for each bit of ACCESS, the rights that it needs (RFC 1813 §3.3.4, RFC 8276
// §8.5). AccessDelete is a right to a directory's entries; no other file has it.
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
