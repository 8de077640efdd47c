package local

import (
	"slices"

	"golang.org/x/sys/unix"
)

// A handleKind says what a handle consists of on some kinds of file systems, and for how long it names
// the same file. test/doctables holds the table in docs/filesystems.md to handleKinds.
type handleKind struct {
	name   string
	magics []int64 // f_type in statfs(2); empty: all other kinds
	// lasts is true if the file system has an identity, and its handles name the same files in each
	// mount of it. Otherwise handles are good for one mount only: see FS.Scope.
	lasts bool
	// checked is true if nothing is known of the generation in the kernel's handle. The handle then has
	// the inode number, too, and FS.openKernelHandle compares it.
	checked bool
	// layers is true if the kernel makes handles that it does not open (atHandleFID), which name a file in
	// a layer. They stay the same when a file is copied up; its time of birth does not.
	layers bool
}

// handleKinds has the kinds of file systems. Only those last that are known to: they store a generation
// with each inode, so that another file with the same inode number has another handle. The others may
// number their files anew at each mount. libfuse does: its files are 2, 3, 4 in the order in which they
// were first looked up, all with generation 0.
var handleKinds = []handleKind{
	{name: "ext2, ext3, ext4", magics: []int64{unix.EXT4_SUPER_MAGIC}, lasts: true},
	{name: "XFS", magics: []int64{unix.XFS_SUPER_MAGIC}, lasts: true},
	{name: "btrfs", magics: []int64{unix.BTRFS_SUPER_MAGIC}, lasts: true},
	{name: "F2FS, bcachefs, ZFS", magics: []int64{unix.F2FS_SUPER_MAGIC, bcachefsMagic, zfsMagic}, lasts: true},
	{name: "tmpfs", magics: []int64{unix.TMPFS_MAGIC}, lasts: true},
	{name: "overlayfs", magics: []int64{unix.OVERLAYFS_SUPER_MAGIC}, lasts: true, layers: true},
	{name: "all others, FUSE among them", checked: true},
}

// handleKindOf returns the kind of a file system by its f_type in statfs(2).
func handleKindOf(magic int64) *handleKind {
	for i := range handleKinds {
		if k := &handleKinds[i]; len(k.magics) == 0 || slices.Contains(k.magics, magic) {
			return k
		}
	}
	return nil // not reached: the last kind is of all others
}
