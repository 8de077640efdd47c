package vfs

// XattrMode is what SetXattr does about an attribute that exists, or does not.
type XattrMode uint8

// Modes of SetXattr (RFC 8276 §8.4.3).
const (
	XattrEither  XattrMode = iota
	XattrCreate            // EEXIST if there is one
	XattrReplace           // ENODATA if there is none
)

// MaxXattr is the longest value of an extended attribute, and the longest list
// of names, in bytes (Linux: XATTR_SIZE_MAX, XATTR_LIST_MAX).
const MaxXattr = 64 << 10

// Xattrs is the further interface of a FileSystem that keeps extended attributes
// of users (xattr(7)). Names are those behind "user.", which local programs put
// before them: not empty and without NUL (EINVAL), at most 250 bytes
// (ENAMETOOLONG). Only regular files and directories have such attributes: EPERM
// where others are changed, ENODATA where they are asked.
//
// What op.Cred may is what the mode says of a file's data, without the rules of
// NFSv3 on top: permission to read for what is told, to write for what is
// changed. Access answers the same for AccessXattrRead, AccessXattrList and
// AccessXattrWrite. ErrNotSupported: the file system keeps none.
type Xattrs interface {
	// GetXattr writes the value to buf, from its beginning, and returns its
	// length. ENODATA: there is none of this name. ERANGE: buf is too short.
	GetXattr(op *Op, h Handle, name, buf []byte) (int, error)
	// SetXattr gives h an attribute. E2BIG: the value is longer than MaxXattr.
	// ENOSPC: it does not fit beside the others.
	SetXattr(op *Op, h Handle, name, value []byte, mode XattrMode) (Change, error)
	// ListXattrs writes the names to buf, each with a NUL behind it, and
	// returns the length of all. ERANGE: buf is too short, which one of MaxXattr
	// never is. E2BIG: local programs have made more than can be listed.
	ListXattrs(op *Op, h Handle, buf []byte) (int, error)
	// RemoveXattr takes an attribute away. ENODATA: there was none.
	RemoveXattr(op *Op, h Handle, name []byte) (Change, error)
}
