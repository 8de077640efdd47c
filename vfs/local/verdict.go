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

// A verdict is what the kernel said about a caller's rights on a file in the state that change
// names: mode, owner and ACL are still the same.
type verdict struct {
	caller uint32
	round  uint32 // the sweeper's, when the kernel was asked
	change uint64
	known  right
	has    right
}

// askAnew is for how many rounds a verdict is remembered. A change by another program may have set
// the ctime before the verdict and have taken effect behind it. No other look shows that.
const askAnew = 3

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

// holds says whether e is about caller and the state that n is in.
func (e *verdict) holds(n *node, caller uint32) bool {
	return e.caller == caller && roundsSince(n.fs.nodes.round.Load(), e.round) < askAnew && n.inode.version.still(e.change)
}

// findVerdict is what is remembered of caller's rights on n, which was just looked at.
func (n *node) findVerdict(caller uint32) (known, has right) {
	v := &n.verdicts
	v.mu.Lock()
	defer v.mu.Unlock()
	for i := range v.list {
		if e := &v.list[i]; e.holds(n, caller) {
			return e.known, e.has
		}
	}
	return 0, 0
}

// remember keeps a verdict. Rights that it does not judge stay as an earlier verdict of the same
// state had them.
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

// settled says that no change from now on can leave the ctime of l, though the file system's
// times are coarse. It is asked before the look at what is to be remembered: while that look waits
// for the disk, the ctime grows old.
func (fs *FS) settled(l *look) bool {
	return fs.now().Sub(time.Unix(l.Ctim.Unix())) >= grainOf(l.Ctim.Nsec)
}

// rights answers which of want op's caller has on n, which was just looked at.
func (fs *FS) rights(op *vfs.Op, n *node, is *look, want right) (right, error) {
	caller := fs.callers.number(op.Cred)
	known, has := n.findVerdict(caller)
	if caller != 0 && known&want == want {
		fs.stats.verdictsRemembered.Add(1)
		return has & want, nil
	}
	if op.Try && !(fs.kind.memory && n.verdicts.asked.Load() && fs.asIs(op.Cred)) {
		return 0, vfs.ErrWouldBlock
	}
	said := verdict{caller: caller, round: fs.nodes.round.Load(), change: is.change, known: want}
	last := caller != 0 && is.still && fs.settled(is)
	fs.stats.verdicts.Add(1)
	has, err := fs.judge(op.Cred, n.fd, want)
	if err != nil {
		return 0, err
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
	var is look
	if err = fs.look(op, n, &is); err != nil {
		return 0, err
	}
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
	has, err := fs.rights(op, n, &is, ask)
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
