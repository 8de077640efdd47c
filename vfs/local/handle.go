package local

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// The first byte of a handle is its format; the rest depends on it.
const (
	// kernelHandle: the kernel's handle type (one byte) and the kernel's handle, which contains the
	// inode's generation. So if an inode number is used again, the new file has another handle.
	kernelHandle = 1
	// inodeHandle: inode number and time of birth in nanoseconds, 8 bytes each, big-endian. It is
	// for files for which the kernel returns no handle, or one that is too long. If the file system
	// stores no time of birth, that time is 0 here, and a reused inode number goes unnoticed.
	inodeHandle = 2
	// checkedHandle: kernelHandle and the inode number (handleKind.checked), 8 bytes, big-endian.
	checkedHandle = 3
)

// atHandleFID is AT_HANDLE_FID (name_to_handle_at(2), Linux 6.6): the kernel need not be able to open the
// handle.
const atHandleFID = 0x200

// maxKernelHandle is the kernel's MAX_HANDLE_SZ.
const maxKernelHandle = 128

// identify returns the handle of the file open on fd; st are its attributes. It needs no capability.
func (k *handleKind) identify(fd int, st *unix.Stat_t) (vfs.Handle, error) {
	h, err := k.ofKernel(fd, st)
	switch err {
	case syscall.EOPNOTSUPP, syscall.EOVERFLOW:
		if k.layers {
			if h, _, err = kernelHandleOf(fd, nil, atHandleFID); err == nil {
				return h, nil
			}
		}
	case syscall.EPERM, syscall.EACCES, syscall.ENOSYS: // a container's filter of system calls may refuse the call
	default:
		return h, err
	}
	b := binary.BigEndian.AppendUint64([]byte{inodeHandle}, st.Ino)
	h, _ = vfs.MakeHandle(binary.BigEndian.AppendUint64(b, uint64(birth(fd))))
	return h, nil
}

// ofKernel returns the handle of the file open on fd, if it is one that the kernel opens.
func (k *handleKind) ofKernel(fd int, st *unix.Stat_t) (h vfs.Handle, err error) {
	h, _, err = kernelHandleOf(fd, nil, 0)
	if err != nil || !k.checked {
		return h, err
	}
	var buf [vfs.MaxHandle + 8]byte
	b := binary.BigEndian.AppendUint64(h.Append(buf[:0]), st.Ino)
	b[0] = checkedHandle
	h, ok := vfs.MakeHandle(b)
	if !ok {
		err = syscall.EOVERFLOW
	}
	return h, err
}

// handleOf returns the handle of name in the directory dir without opening the file, and the ID of the
// mount that the file is on. EOPNOTSUPP: such handles have the inode number, which the kernel does not
// return with a handle. Other errors are those of kernelHandleOf.
func (fs *FS) handleOf(dir int, name []byte) (h vfs.Handle, mount int32, err error) {
	if fs.handles.checked {
		return h, 0, syscall.EOPNOTSUPP
	}
	return kernelHandleOf(dir, name, 0)
}

// kernelHandleOf returns the kernel's handle of name in the directory dir without opening the file,
// and the ID of the mount that the file is on. An empty name means dir itself. EOVERFLOW: the
// kernel's handle does not fit into a vfs.Handle. The flags are 0 or atHandleFID.
func kernelHandleOf(dir int, name []byte, flags uintptr) (h vfs.Handle, mount int32, err error) {
	var b [vfs.MaxHandle]byte
	n, kind, mount, err := sysNameToHandleAt(dir, name, b[2:], flags)
	if err != nil {
		return h, 0, err
	}
	if kind < 0 || kind > 0xff {
		return h, 0, syscall.EOVERFLOW
	}
	b[0], b[1] = kernelHandle, byte(kind)
	h, _ = vfs.MakeHandle(b[:2+n])
	return h, mount, nil
}

// birth returns the time of birth of fd's file, in nanoseconds since 1970, or 0 if it is unknown.
func birth(fd int) int64 {
	var sx unix.Statx_t
	if sysStatx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BTIME, &sx) != nil || sx.Mask&unix.STATX_BTIME == 0 {
		return 0
	}
	return sx.Btime.Sec*1e9 + int64(sx.Btime.Nsec)
}

// checkHandle returns vfs.ErrBadHandle unless h has the form of a handle of this package.
func checkHandle(h *vfs.Handle) error {
	b := h.Bytes()
	switch {
	case len(b) > 2 && b[0] == kernelHandle:
		return nil
	case len(b) > 2+8 && b[0] == checkedHandle:
		return nil
	case len(b) == 17 && b[0] == inodeHandle:
		return nil
	}
	return vfs.ErrBadHandle
}

// fsidOf returns the identity of the file system with device number dev, without Config.FSID: the
// FSID in statfs(2), which ext4, btrfs and others derive from the file system's UUID. XFS, FAT and
// others derive it from the device number, which may differ after a reboot; for these, fsidOf
// returns a hash of the UUID. If there is none, it returns the device number, and lasting is false.
// fd is on that file system. readable is a descriptor on it that is open for reading, or -1.
func fsidOf(fd, readable int, dev uint64) (id uint64, lasting bool) {
	var s unix.Statfs_t
	if sysFstatfs(fd, &s) == nil {
		id = uint64(uint32(s.Fsid.Val[0]))<<32 | uint64(uint32(s.Fsid.Val[1]))
	}
	if id != 0 && id != dev<<32 {
		return id, true
	}
	uuid := uuidOf(readable, dev)
	if uuid == "" {
		return dev, false
	}
	return idOfUUID(uuid), true
}

// idOfUUID returns a hash of a UUID as uuidOf returns it.
func idOfUUID(uuid string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(uuid))
	return h.Sum64()
}

// A DirectoryID identifies a directory.
type DirectoryID struct {
	FSID   uint64 // identity of the file system, as clients see it without Config.FSID
	Handle vfs.Handle
	// Lasting is true if the FSID and the Handle name no other directory after a reboot. A tmpfs,
	// which is made anew at each boot, has another FSID then.
	Lasting bool
}

// IdentifyDirectory returns the identity of the directory open on fd, perhaps with O_PATH.
func IdentifyDirectory(fd int) (id DirectoryID, err error) {
	var st unix.Stat_t
	if err := sysFstat(fd, &st); err != nil {
		return id, err
	}
	readable, err := again(func() (int, error) { return unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) })
	if err == nil {
		defer unix.Close(readable)
	} // if readable is -1, fsidOf may still find the UUID in namesOfUUIDs
	id.FSID, id.Lasting = fsidOf(fd, readable, st.Dev)
	kind := handleKind{layers: true} // the same for all kinds, because the identity is kept in a file
	id.Handle, err = kind.identify(fd, &st)
	return id, err
}

// fsIocGetUUID is FS_IOC_GETFSUUID (Linux 6.9): one length byte and 16 bytes for the UUID.
const fsIocGetUUID = 0x80111500

// namesOfUUIDs is the directory where udev links UUIDs to block devices.
const namesOfUUIDs = "/dev/disk/by-uuid"

// uuidOf returns the UUID of the file system with device number dev in hexadecimal digits, or "".
// fd is a readable descriptor on that file system, or -1.
func uuidOf(fd int, dev uint64) string {
	var b [1 + 16]byte
	if fd >= 0 {
		_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), fsIocGetUUID, uintptr(unsafe.Pointer(&b)))
		if n := int(b[0]); e == 0 && n > 0 && n < len(b) {
			return hex.EncodeToString(b[1 : 1+n])
		}
	}
	return uuidOfDevice(namesOfUUIDs, dev)
}

// uuidOfDevice returns the name, without dashes, of a link in dir to the block device dev, or "".
func uuidOfDevice(dir string, dev uint64) string {
	names, _ := os.ReadDir(dir)
	for _, e := range names {
		var st unix.Stat_t
		if unix.Stat(filepath.Join(dir, e.Name()), &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFBLK && st.Rdev == dev {
			return strings.ToLower(strings.ReplaceAll(e.Name(), "-", ""))
		}
	}
	return ""
}

// A resolver finds the files of handles. It is a kernelResolver, a layersResolver or an *index.Index.
type resolver interface {
	// Open returns an O_PATH descriptor of h's file. ESTALE: the file does not exist, or it is a
	// directory that does not lie below the root. ErrDelay: the index has to search for the file,
	// and the search has not begun or not ended yet.
	Open(h vfs.Handle) (int, error)
	// Note records that name in the directory dir belongs to the file h. Note never waits.
	Note(dir, h vfs.Handle, name []byte)
	// Room reports whether Note can take more names. If too many names wait to be written to disk,
	// Room waits until fewer do, unless try is set.
	Room(try bool) bool
	// Gone records that name in dir no longer belongs to h; last: h has no name any more. It never waits.
	Gone(dir, h vfs.Handle, name []byte, last bool)
	Close() error
}

// kernelResolver finds files with open_by_handle_at.
type kernelResolver struct{ fs *FS }

func (kernelResolver) Note(_, _ vfs.Handle, _ []byte)         {}
func (kernelResolver) Room(bool) bool                         { return true }
func (kernelResolver) Gone(_, _ vfs.Handle, _ []byte, _ bool) {}
func (kernelResolver) Close() error                           { return nil }
func (r kernelResolver) Open(h vfs.Handle) (int, error)       { return r.fs.openKernelHandle(&h) }

func (fs *FS) openKernelHandle(h *vfs.Handle) (int, error) {
	b, format, ino := h.Bytes(), byte(kernelHandle), []byte(nil)
	if fs.handles.checked {
		format = checkedHandle
		b, ino = b[:max(0, len(b)-8)], b[max(0, len(b)-8):]
	}
	if len(b) <= 2 || b[0] != format {
		return -1, syscall.ESTALE // the handle was made when this file system had no handles
	}
	fd, err := openHandle(fs.mount, int32(b[1]), b[2:])
	if err != nil {
		if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOENT) {
			err = syscall.ESTALE
		}
		return -1, err
	}
	if fs.bounded && ino == nil {
		return fd, nil
	}
	var st unix.Stat_t
	switch err = sysFstat(fd, &st); {
	case err == syscall.ENOENT: // FUSE knows the file of the handle, and that it was removed
		err = syscall.ESTALE
	case err != nil:
	case ino != nil && st.Ino != binary.BigEndian.Uint64(ino):
		err = syscall.ESTALE
	case !fs.bounded && st.Mode&unix.S_IFMT == unix.S_IFDIR:
		err = fs.below(fd, &st)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// memoryTries is the number of times that openHandle tries if the kernel reports ENOMEM, which it
// also does for a short time while a file is being removed or made.
const memoryTries = 16

// openHandle returns an O_PATH descriptor of the file with the given kernel handle.
func openHandle(mount int, kind int32, handle []byte) (fd int, err error) {
	for i := range memoryTries {
		err = uninterrupted(func() (err error) {
			fd, err = unix.OpenByHandleAt(mount, unix.NewFileHandle(kind, handle), unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC)
			return err
		})
		if err != syscall.ENOMEM {
			break
		}
		time.Sleep(time.Duration(i) * 100 * time.Microsecond)
	}
	return fd, err
}

// indexedTree implements index.Tree for the served tree.
type indexedTree struct{ fs *FS }

// OpenRoot implements index.Tree.
func (t indexedTree) OpenRoot() (int, error) {
	return sysOpenat2(t.fs.mount, dot, unix.O_PATH|unix.O_DIRECTORY, 0, unix.RESOLVE_NO_XDEV)
}

var dot = []byte(".")

// OpenName implements index.Tree.
func (indexedTree) OpenName(dir int, name []byte) (int, error) {
	return sysOpenat2(dir, name, unix.O_PATH, 0, unix.RESOLVE_NO_XDEV)
}

// Identify implements index.Tree.
func (t indexedTree) Identify(fd int) (h vfs.Handle, directory bool, err error) {
	var st unix.Stat_t
	if err = sysFstat(fd, &st); err != nil {
		return h, false, err
	}
	h, err = t.fs.handles.identify(fd, &st)
	return h, st.Mode&unix.S_IFMT == unix.S_IFDIR, err
}

// Names implements index.Tree.
func (t indexedTree) Names(dir int, each func(name []byte) bool) error {
	list, err := t.fs.reopen(dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(list)
	for e, err := range dirents(list, make([]byte, namesAtOnce)) {
		if err != nil || !each(e.name) {
			return err
		}
	}
	return nil
}

// node returns the node of h with a reference. It makes sure that a directory lies below the root.
func (fs *FS) node(op *vfs.Op, h vfs.Handle) (*node, error) {
	n := fs.nodes.cached(&h)
	if n == nil {
		return fs.findNode(op, h)
	}
	if n.typ == vfs.Directory && n.confinedAt.Load() != fs.moves.Load() {
		if err := fs.confine(op, n); err != nil {
			fs.giveBack(op, n)
			return nil, err
		}
	}
	return n, nil
}

func (fs *FS) findNode(op *vfs.Op, h vfs.Handle) (*node, error) {
	if err := checkHandle(&h); err != nil {
		return nil, err
	}
	if op.Try {
		return nil, vfs.ErrWouldBlock
	}
	moves := fs.moves.Load()
	fd, err := fs.withRoom(func() (int, error) { return fs.resolver.Open(h) })
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err = sysFstat(fd, &st); err != nil {
		unix.Close(fd)
		return nil, err
	}
	n := fs.keepNode(fd, &st, h, nil)
	n.confinedAt.Store(moves)
	return n, nil
}

// dir returns the node of a directory, with a reference. For another file it returns ENOTDIR.
func (fs *FS) dir(op *vfs.Op, h vfs.Handle) (*node, error) {
	n, err := fs.node(op, h)
	if err == nil && n.typ != vfs.Directory {
		n.put()
		return nil, syscall.ENOTDIR
	}
	return n, err
}

func outOfDescriptors(err error) bool { return err == syscall.EMFILE || err == syscall.ENFILE }

// lookAt returns the node of h with a reference, and reads its attributes into the last argument.
func (fs *FS) lookAt(op *vfs.Op, h vfs.Handle, is *look) (*node, error) {
	n, err := fs.node(op, h)
	if err == nil {
		if err = fs.look(op, n, is); err != nil {
			fs.giveBack(op, n)
		}
	}
	return n, err
}

// look reads n's attributes. ESTALE: the file has no name any more and no caller has it open; then
// look removes n from the cache, so that the file's space becomes free.
func (fs *FS) look(op *vfs.Op, n *node, l *look) error {
	if op.Try && !fs.kind.memory {
		return vfs.ErrWouldBlock
	}
	err := n.stat(l)
	if err == syscall.ENOENT { // FUSE, of a file that was removed
		fs.nodes.forget(n)
		return syscall.ESTALE
	}
	if err == nil && l.Nlink == 0 && fs.kind.links && fs.nodes.forget(n) {
		err = syscall.ESTALE
	}
	return err
}
