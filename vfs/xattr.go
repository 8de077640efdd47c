package vfs

// XattrMode decides what SetXattr does if the attribute exists, and if it does not.
type XattrMode uint8

// Modes of SetXattr (RFC 8276 §8.4.3).
const (
	XattrEither  XattrMode = iota
	XattrCreate            // EEXIST if it exists
	XattrReplace           // ENODATA if it does not exist
)

// MaxXattr is the maximum length of the value of an extended attribute, and the longest list of
// names, in bytes (Linux: XATTR_SIZE_MAX, XATTR_LIST_MAX).
const MaxXattr = 64 << 10

// Xattrs is an optional interface of a FileSystem that keeps extended attributes of users
// (xattr(7)). Local programs see each name with the prefix "user."; here the names have no prefix.
// A name must not be empty or contain NUL (else EINVAL), and has at most 250 bytes (else
// ENAMETOOLONG). Only regular files and directories have such attributes. On other objects, changes
// fail with EPERM and GetXattr with ENODATA, and the list of names is empty.
//
// To get or list attributes, op.Cred needs permission to read the file's data; to change them,
// permission to write it. Only the file's mode decides that, without the additional rules of NFSv3.
// Access applies the same rules to AccessXattrRead, AccessXattrList and AccessXattrWrite.
// ErrNotSupported: the file system has no extended attributes.
type Xattrs interface {
	// GetXattr writes the value to the start of buf and returns its length. ENODATA: h has no
	// attribute of this name. ERANGE: buf is too short.
	GetXattr(op *Op, h Handle, name, buf []byte) (int, error)
	// SetXattr sets an attribute of h. E2BIG: the value is longer than MaxXattr. ENOSPC: there is
	// no room for it beside the file's other attributes.
	SetXattr(op *Op, h Handle, name, value []byte, mode XattrMode) (Change, error)
	// ListXattrs writes the names to buf, each followed by a NUL, and returns the total length.
	// ERANGE: buf is too short; MaxXattr bytes are always enough. E2BIG: local programs have made
	// more attributes than can be listed.
	ListXattrs(op *Op, h Handle, buf []byte) (int, error)
	// RemoveXattr removes an attribute. ENODATA: h has no attribute of this name.
	RemoveXattr(op *Op, h Handle, name []byte) (Change, error)
}
