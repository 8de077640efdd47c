package local

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// fsKind holds the properties of a kind of file system, such as ext4, that matter to this package.
type fsKind struct {
	// memory is true if a file's attributes are in memory while an O_PATH descriptor holds it
	// open. Then a call with Op.Try may read them.
	memory bool
	// rawAttr is true if fstat reads nothing but the inode in memory and waits for no lock that is
	// held during I/O. Then fstat may be a raw call (raw_syscall.go).
	rawAttr bool
	// links is true if a file without a name has a link count of 0, which is not sure on FUSE.
	links bool
	// reserves is true if the file system keeps blocks in reserve for some users.
	reserves bool
	// pages is true if file data is always in memory.
	pages bool
	// logged is true if a sync of a directory also makes the inodes of its new entries durable,
	// because both are in one transaction of the log.
	logged bool
	// losesLog is true if a failure to write the log shows only to calls that wait for the log at
	// that moment. A later sync, even of the same inode, finds nothing to do and succeeds.
	losesLog bool
	// withDirs is true if a sync of a directory also makes its new symlinks and special files durable.
	// Otherwise they need a sync of the whole file system, because they cannot be synced alone.
	withDirs bool
	// noPlaces is true if an entry's offset (d_off) is valid only for one descriptor and while the
	// directory does not change. Listings are then ordered by name (dir_stream.go).
	noPlaces bool
	// subvolumes is true if a directory may list the root of a subvolume, which has another device
	// number and the inode number subvolumeRoot.
	subvolumes  bool
	maxFile     uint64
	maxLink     uint32
	noLinks     bool
	caseFolding bool
	// times is the granularity of the file system's times.
	times vfs.Time
}

// Magic numbers that package unix does not have.
const (
	zfsMagic      = 0x2fc12fc1
	bcachefsMagic = 0xca451a4e
)

// hasJournal reports whether the ext2, ext3 or ext4 file system on device dev has a journal.
func hasJournal(dev uint64) bool {
	disk, err := os.Readlink(fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(dev), unix.Minor(dev)))
	if err != nil {
		return false
	}
	task, err := os.ReadFile(filepath.Join("/sys/fs/ext4", filepath.Base(disk), "journal_task"))
	if err != nil {
		return false
	}
	_, err = strconv.Atoi(strings.TrimSpace(string(task)))
	return err == nil
}

// kindOf returns the kind of the file system whose root has the attributes root. born is true if
// the file system stores times of birth.
func kindOf(s *unix.Statfs_t, root *unix.Stat_t, born bool) fsKind {
	const most = 1<<63 - 1
	nanosecond, second := vfs.Time{Nsec: 1}, vfs.Time{Sec: 1}
	k := fsKind{maxFile: most, maxLink: 32000, times: nanosecond}
	switch s.Type {
	case unix.EXT4_SUPER_MAGIC:
		k.memory, k.rawAttr, k.logged, k.maxFile, k.maxLink = true, true, hasJournal(root.Dev), 16<<40-4096, 65000
		k.reserves = true
		// ext2, and ext4 with inodes of 128 bytes, store whole seconds and no time of birth.
		if k.times = second; born {
			k.times = nanosecond
		}
	case unix.XFS_SUPER_MAGIC:
		k.memory, k.rawAttr, k.logged, k.losesLog, k.maxLink = true, true, true, true, 1<<31-1
	case unix.BTRFS_SUPER_MAGIC:
		k.memory, k.rawAttr, k.withDirs, k.subvolumes, k.maxLink = true, true, true, true, 65535
	case unix.TMPFS_MAGIC, unix.RAMFS_MAGIC:
		k.memory, k.rawAttr, k.pages, k.logged, k.maxLink = true, true, true, true, 1<<31-1
	case unix.F2FS_SUPER_MAGIC:
		k.memory, k.rawAttr, k.withDirs, k.reserves = true, true, true, true
	case unix.MSDOS_SUPER_MAGIC, unix.EXFAT_SUPER_MAGIC:
		k.memory, k.rawAttr, k.noLinks, k.caseFolding, k.maxLink = true, true, true, true, 1
		k.times = vfs.Time{Sec: 2}
		if s.Type == unix.MSDOS_SUPER_MAGIC {
			k.maxFile = 4<<30 - 1
		}
	case zfsMagic, bcachefsMagic:
		// No rawAttr: fstat may wait for a lock that a rollback of ZFS holds while it reads the disk.
		k.memory, k.withDirs = true, true
	case unix.OVERLAYFS_SUPER_MAGIC:
		k.links, k.noPlaces = true, true // the layers may be file systems of any kind, so nothing else is known
		fallthrough
	default:
		if root.Ctim.Nsec == 0 && root.Mtim.Nsec == 0 {
			k.times = second // both times have no fraction, so the file system probably keeps whole seconds
		}
	}
	k.links = k.links || k.memory
	return k
}

// statfs asks for the properties of the file system of h.
func (fs *FS) statfs(op *vfs.Op, h vfs.Handle) (s unix.Statfs_t, err error) {
	n, err := fs.node(op, h)
	if err != nil {
		return s, err
	}
	defer fs.giveBack(op, n)
	if op.Try {
		return s, vfs.ErrWouldBlock // the kernel reads quotas from the disk
	}
	err = sysFstatfs(n.fd, &s)
	return s, err
}

// Info implements vfs.FileSystem.
func (fs *FS) Info(op *vfs.Op, h vfs.Handle) (vfs.Info, error) {
	s, err := fs.statfs(op, h)
	if err != nil {
		return vfs.Info{}, err
	}
	return vfs.Info{
		MaxFileSize: fs.kind.maxFile, MaxName: uint32(min(s.Namelen, maxName)), MaxLink: fs.kind.maxLink,
		TimeGranularity: fs.kind.times, CanSetTime: true, ReadOnly: fs.readOnly || s.Flags&unix.ST_RDONLY != 0,
		HardLinks: !fs.kind.noLinks, Symlinks: !fs.kind.noLinks, CaseInsensitive: fs.kind.caseFolding,
	}, nil
}

// Usage implements vfs.FileSystem. The kernel does not count the files available to one user; all
// free files count as available.
func (fs *FS) Usage(op *vfs.Op, h vfs.Handle) (vfs.Usage, error) {
	s, err := fs.statfs(op, h)
	if err != nil {
		return vfs.Usage{}, err
	}
	unit := uint64(s.Frsize)
	if unit == 0 {
		unit = uint64(s.Bsize)
	}
	return vfs.Usage{TotalBytes: s.Blocks * unit, FreeBytes: s.Bfree * unit, AvailableBytes: s.Bavail * unit,
		TotalFiles: s.Files, FreeFiles: s.Ffree, AvailableFiles: s.Ffree}, nil
}
