package local

import (
	"encoding/binary"
	"hash/fnv"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// fsid returns the identity of the file system, or of the subvolume of btrfs, that an object is on. It
// outlasts a restart of the daemon, and a reboot, too, unless fsidOf has to use the device number. fd
// is a descriptor of the object itself, st its attributes, and near an open node or nil.
//
// Only the object itself can tell, because a directory may list the roots of subvolumes, which have
// FSIDs of their own. Nothing is remembered by device number: btrfs gives that of a removed subvolume
// to the next new one. But near and the root are open, so that an object with the device number of
// one of them is on the same subvolume.
func (fs *FS) fsid(fd int, st *unix.Stat_t, near *node) uint64 {
	readable := -1
	switch {
	case fs.root != nil && st.Dev == fs.rootStat.Dev:
		return fs.root.fsid
	case near != nil && st.Dev == near.inode.key.dev:
		return near.fsid
	case fs.root == nil: // the object is the root
		readable = fs.mount
	}
	id, _ := fsidOf(fd, readable, st.Dev)
	if fs.cfg.FSID != 0 {
		h := fnv.New64a()
		h.Write(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, fs.cfg.FSID), id))
		id = h.Sum64()
	}
	return id
}

// An origin is the FS that a node is of, and the identity of the node's file there.
type origin struct {
	fs     *FS
	fsid   uint64
	fileID uint64 // see FS.fileID
}

// keepNode returns the node of h with a reference, which has fd, or closes fd: see nodeCache.adopt. near is
// an open node, probably of the same device, or nil.
func (fs *FS) keepNode(fd int, st *unix.Stat_t, h vfs.Handle, near *node) *node {
	fsid := fs.fsid(fd, st, near)
	return fs.nodes.adopt(fd, st, h, origin{fs, fsid, fs.fileID(fsid, st)})
}

const (
	// subvolumeRoot is the inode number of the root of each subvolume (BTRFS_FIRST_FREE_OBJECTID).
	subvolumeRoot = 256
	// rootFileID marks the file IDs of roots of subvolumes. Inode numbers of btrfs, which counts them
	// up from 256, are lower.
	rootFileID = 1 << 62
)

// fileID returns the file ID of an object with this FSID and these attributes: its inode number,
// unless it is the root of a subvolume. All these roots have the inode number 256, so that the root
// of the parent subvolume has it, too; in a listing they have the number of the subvolume, which a
// file of the parent may have. But clients compare the file ID with those of the parent subvolume, as
// mounted_on_fileid (RFC 8881 §5.8.2.23) or, with NFSv3, because there is no other: so it is one that
// no file of the parent or of the subvolume has.
func (fs *FS) fileID(fsid uint64, st *unix.Stat_t) uint64 {
	if fs.kind.subvolumes && st.Ino == subvolumeRoot && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return rootFileID | fsid&(rootFileID-1)
	}
	return st.Ino
}

// number corrects the file ID of a directory's entry in a plain listing on a file system with
// subvolumes. It returns false if the entry does not exist any more.
func (l *listing) number(e *vfs.DirEntry) (there bool) {
	full := *e
	_, there = l.attributes(&full)
	e.FileID = full.FileID
	return there
}
