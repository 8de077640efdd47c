package local

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

var _ vfs.Scoped = (*FS)(nil)

// Scope implements vfs.Scoped. It is made of the root's handle, and of the identity of its file system:
// the one that lasts if there is one, else that of the mount. So handles that the FS gives for files of one
// directory lead to nothing if the FS shows another directory, or the same one of another file system.
func (fs *FS) Scope() vfs.Scope { return fs.scope }

// scopeOf returns the Scope of the directory root. fd is that directory, and readable a descriptor of it
// that is open for reading.
func scopeOf(kind *handleKind, fd, readable int, magic int64, dev uint64, root *vfs.Handle) (s vfs.Scope) {
	b := []byte("nfsrdmad scope of handles ")
	if id, lasts := lastingID(kind, fd, readable, magic, dev); lasts {
		b = binary.BigEndian.AppendUint64(append(b, "in "...), id)
	} else {
		b = append(append(b, "in mount "...), mountIdentity(fd, magic, dev)...)
	}
	sum := sha256.Sum256(root.Append(b))
	copy(s[:], sum[:])
	return s
}

// lastingID returns the identity of a file system that is the same in each mount of it. lasts is false if
// it has none, or if its handles do not last either.
func lastingID(kind *handleKind, fd, readable int, magic int64, dev uint64) (id uint64, lasts bool) {
	if !kind.lasts {
		return 0, false
	}
	id, lasts = fsidOf(fd, readable, dev)
	if !lasts && magic == unix.XFS_SUPER_MAGIC {
		// In a container, with a kernel before Linux 6.9, only XFS itself tells its UUID.
		uuid := uuidOfXFS(readable)
		return idOfUUID(uuid), uuid != ""
	}
	return id, lasts && id != idOfUUID(noUUID)
}

// noUUID is the UUID of a file system that was made without one, as uuidOf returns it.
var noUUID = strings.Repeat("0", 32)

// xfsIocGeometry is XFS_IOC_FSGEOMETRY_V1 (ioctl_xfs_fsgeometry(2)). xfsGeometry is its result, and
// xfsUUID the offset of the UUID there.
const (
	xfsIocGeometry = 0x80705864
	xfsUUID        = 64
)

type xfsGeometry [14]uint64

// uuidOfXFS returns the UUID of an XFS in the form of uuidOf, or "".
func uuidOfXFS(fd int) string {
	var g xfsGeometry
	p := unsafe.Pointer(&g)
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), xfsIocGeometry, uintptr(p)); e != 0 {
		return ""
	}
	uuid := hex.EncodeToString((*[unsafe.Sizeof(g)]byte)(p)[xfsUUID : xfsUUID+16])
	if uuid == noUUID {
		return ""
	}
	return uuid
}

// mountIdentity returns what identifies the mount of fd. No other mount on this machine, of this file
// system or of another one, now or later, has the same.
func mountIdentity(fd int, magic int64, dev uint64) []byte {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if magic == unix.FUSE_SUPER_MAGIC {
		// The connection is the same in the mount namespace that a service manager makes for each start
		// of the daemon. The mount is another one there.
		if c := fuseConnection(fuseConnections, dev); c != "" {
			return append(boot, c...)
		}
	}
	var sx unix.Statx_t
	if sysStatx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID_UNIQUE, &sx) == nil && sx.Mask&unix.STATX_MNT_ID_UNIQUE != 0 {
		return binary.BigEndian.AppendUint64(boot, sx.Mnt_id)
	}
	return append(boot, fmt.Sprintf("device %d, %s", dev, numberedMount(fd))...)
}

// mountTable is the table of this process's mounts (proc(5), mountinfo).
var mountTable struct {
	mu sync.Mutex
	fd int // 0: not open yet. The runtime must not poll it, because each poll takes the event.
	// random is another number after each change of the table that numberedMount has noticed.
	random [16]byte
}

// numberedMount returns what identifies the mount of fd before Linux 6.8. The next mount often gets the number
// of the last one then, and the same st_dev. So the result is another one if anything was mounted or
// unmounted since the last call, and in another process.
func numberedMount(fd int) string {
	t := &mountTable
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fd <= 0 { // without it, each call returns another identity
		t.fd, _ = unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	}
	changed := []unix.PollFd{{Fd: int32(t.fd), Events: unix.POLLPRI}}
	if n, err := unix.Poll(changed, 0); n != 0 || err != nil || t.fd <= 0 || t.random == [16]byte{} {
		_, _ = rand.Read(t.random[:]) // it does not fail (crypto/rand)
	}
	return fmt.Sprintf("mount %d %x", mountNumber(fd), t.random)
}

// fuseConnections is the directory of the FUSE connections, one for each file system that is mounted.
const fuseConnections = "/sys/fs/fuse/connections"

// fuseConnection returns what distinguishes the FUSE file system dev from those that were mounted as the
// same device before: the inode and the ctime of its connection in dir, which the kernel makes at the
// mount and does not change. It returns "" if dir does not show it.
func fuseConnection(dir string, dev uint64) string {
	var st unix.Stat_t
	// The kernel's own form of a device number (dev_t) has 20 bits for the minor number.
	if unix.Stat(fmt.Sprintf("%s/%d", dir, uint64(unix.Major(dev))<<20|uint64(unix.Minor(dev))), &st) != nil {
		return ""
	}
	return fmt.Sprintf("FUSE connection %d made %d.%09d", st.Ino, st.Ctim.Sec, st.Ctim.Nsec)
}

// mountNumber returns the ID of fd's mount in mountinfo (proc(5)), or 0.
func mountNumber(fd int) uint64 {
	var sx unix.Statx_t
	if sysStatx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &sx) != nil {
		return 0
	}
	return sx.Mnt_id
}
