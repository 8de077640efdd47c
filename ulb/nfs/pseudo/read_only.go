package pseudo

import (
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// This file holds the operations that change a file system. All of them fail.

// SetAttr implements vfs.FileSystem.
func (Seen) SetAttr(*vfs.Op, vfs.Handle, *vfs.SetAttr, *vfs.Time) (vfs.Change, error) {
	return vfs.Change{}, syscall.EROFS
}

// Write implements vfs.FileSystem.
func (Seen) Write(*vfs.Op, vfs.Handle, uint64, [][]byte, vfs.Stability) (int, vfs.Stability, vfs.Change, error) {
	return 0, 0, vfs.Change{}, syscall.EROFS
}

// Commit implements vfs.FileSystem.
func (Seen) Commit(*vfs.Op, vfs.Handle, uint64, uint32) (vfs.Change, error) {
	return vfs.Change{}, syscall.EISDIR
}

// Create implements vfs.FileSystem.
func (Seen) Create(*vfs.Op, vfs.Handle, []byte, *vfs.CreateHow) (vfs.Object, vfs.Change, error) {
	return vfs.Object{}, vfs.Change{}, syscall.EROFS
}

// Mkdir implements vfs.FileSystem.
func (Seen) Mkdir(*vfs.Op, vfs.Handle, []byte, *vfs.SetAttr) (vfs.Object, vfs.Change, error) {
	return vfs.Object{}, vfs.Change{}, syscall.EROFS
}

// Symlink implements vfs.FileSystem.
func (Seen) Symlink(*vfs.Op, vfs.Handle, []byte, []byte, *vfs.SetAttr) (vfs.Object, vfs.Change, error) {
	return vfs.Object{}, vfs.Change{}, syscall.EROFS
}

// Mknod implements vfs.FileSystem.
func (Seen) Mknod(*vfs.Op, vfs.Handle, []byte, vfs.Type, *vfs.SetAttr, uint32, uint32) (vfs.Object, vfs.Change, error) {
	return vfs.Object{}, vfs.Change{}, syscall.EROFS
}

// Remove implements vfs.FileSystem.
func (Seen) Remove(*vfs.Op, vfs.Handle, []byte) (vfs.Change, error) {
	return vfs.Change{}, syscall.EROFS
}

// Rmdir implements vfs.FileSystem.
func (Seen) Rmdir(*vfs.Op, vfs.Handle, []byte) (vfs.Change, error) {
	return vfs.Change{}, syscall.EROFS
}

// Rename implements vfs.FileSystem.
func (Seen) Rename(*vfs.Op, vfs.Handle, []byte, vfs.Handle, []byte) (from, to vfs.Change, err error) {
	return from, to, syscall.EROFS
}

// Link implements vfs.FileSystem.
func (Seen) Link(*vfs.Op, vfs.Handle, vfs.Handle, []byte, *vfs.Attr) (vfs.Change, error) {
	return vfs.Change{}, syscall.EROFS
}
