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

// fsKind is what differs between file systems and shows.
type fsKind struct {
	// memory: attributes are in memory while a file is held open by path, so
	// that the goroutine that received a call may ask for them.
	memory bool
	// rawAttr: they are read from the inode alone, without waiting for any lock
	// that is held over I/O: fstat may be a raw call (raw_syscall.go).
	rawAttr bool
	// links: a file without a name counts no links. FUSE servers make up
	// their counts.
	links bool
	// reserves: it keeps blocks that only some users may fill.
	reserves bool
	// pages: file data is in memory by definition.
	pages bool
	// logged: making a directory durable makes its new entries' inodes durable
	// as well, because both are in one transaction.
	logged bool
	// losesLog: if it cannot write its log, it tells those that wait for that, if there are
	// any. A sync that begins later, or that looks at its inode then, finds nothing to do.
	losesLog bool
	// withDirs: it does so at least for what cannot be synced by itself, which
	// are symlinks and special files. Elsewhere these take a sync of the whole
	// file system.
	withDirs bool
	// noPlaces: what it tells of an entry's place holds for one descriptor, and while
	// nothing changes: listings go by name (readdir_by_name.go).
	noPlaces    bool
	maxFile     uint64
	maxLink     uint32
	noLinks     bool
	caseFolding bool
	// times is what times are kept to, in seconds or nanoseconds.
	times vfs.Time
}

// Magic numbers that package unix does not have.
const (
	zfsMagic      = 0x2fc12fc1
	bcachefsMagic = 0xca451a4e
)

// hasJournal says that the ext2, ext3 or ext4 file system on device dev has one.
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

// kindOf is the kind of a file system where a root was found that looks like root. born: it
// has a time of birth.
func kindOf(s *unix.Statfs_t, root *unix.Stat_t, born bool) fsKind {
	const most = 1<<63 - 1
	nanosecond, second := vfs.Time{Nsec: 1}, vfs.Time{Sec: 1}
	k := fsKind{maxFile: most, maxLink: 32000, times: nanosecond}
	switch s.Type {
	case unix.EXT4_SUPER_MAGIC:
		k.memory, k.rawAttr, k.logged, k.maxFile, k.maxLink = true, true, hasJournal(root.Dev), 16<<40-4096, 65000
		k.reserves = true
		// ext2, and inodes of 128 bytes, have room for seconds, and for no time of birth.
		if k.times = second; born {
			k.times = nanosecond
		}
	case unix.XFS_SUPER_MAGIC:
		k.memory, k.rawAttr, k.logged, k.losesLog, k.maxLink = true, true, true, true, 1<<31-1
	case unix.BTRFS_SUPER_MAGIC:
		k.memory, k.rawAttr, k.withDirs, k.maxLink = true, true, true, 65535
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
		// ZFS takes a lock that a rollback holds while it reads the disk.
		k.memory, k.withDirs = true, true
	case unix.OVERLAYFS_SUPER_MAGIC:
		k.links, k.noPlaces = true, true // and its layers may be anything
		fallthrough
	default:
		if root.Ctim.Nsec == 0 && root.Mtim.Nsec == 0 {
			k.times = second // no clock is read twice at the full second
		}
	}
	k.links = k.links || k.memory
	return k
}

// fstat reads the attributes of a file of this kind.
func (k *fsKind) fstat(fd int, st *unix.Stat_t) error {
	if k.rawAttr {
		return rawFstat(fd, st)
	}
	return fstat(fd, st)
}

// Info implements vfs.FileSystem.
func (fs *FS) Info(op *vfs.Op, h vfs.Handle) (vfs.Info, error) {
	n, err := fs.node(op, h)
	if err != nil {
		return vfs.Info{}, err
	}
	defer fs.giveBack(op, n)
	if op.Try {
		return vfs.Info{}, vfs.ErrWouldBlock // statfs: see Usage
	}
	var s unix.Statfs_t
	if err := unix.Fstatfs(n.fd, &s); err != nil {
		return vfs.Info{}, err
	}
	return vfs.Info{
		MaxFileSize: fs.kind.maxFile, MaxName: uint32(min(s.Namelen, maxName)), MaxLink: fs.kind.maxLink,
		TimeGranularity: fs.kind.times,
		HardLinks:       !fs.kind.noLinks, Symlinks: !fs.kind.noLinks,
		NoTruncate: true, ChownRestricted: true,
		CaseInsensitive: fs.kind.caseFolding, CasePreserving: true,
		Homogeneous: true, CanSetTime: true, ReadOnly: fs.readOnly,
	}, nil
}

// Usage implements vfs.FileSystem.
func (fs *FS) Usage(op *vfs.Op, h vfs.Handle) (vfs.Usage, error) {
	n, err := fs.node(op, h)
	if err != nil {
		return vfs.Usage{}, err
	}
	defer fs.giveBack(op, n)
	if op.Try {
		return vfs.Usage{}, vfs.ErrWouldBlock // quotas are read from the disk
	}
	var s unix.Statfs_t
	if err := unix.Fstatfs(n.fd, &s); err != nil {
		return vfs.Usage{}, err
	}
	unit := uint64(s.Frsize)
	if unit == 0 {
		unit = uint64(s.Bsize)
	}
	// There is no count of the files that are left to other users: what is
	// free is free to all.
	return vfs.Usage{TotalBytes: s.Blocks * unit, FreeBytes: s.Bfree * unit, AvailableBytes: s.Bavail * unit,
		TotalFiles: s.Files, FreeFiles: s.Ffree, AvailableFiles: s.Ffree}, nil
}
