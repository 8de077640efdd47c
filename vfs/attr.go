package vfs

import "time"

// Type is the kind of a file.
type Type uint8

// Kinds of files, with the numbers of all versions of NFS (RFC 1813 §2.6, ftype3; RFC 8881 §3.2, nfs_ftype4).
const (
	Regular Type = iota + 1
	Directory
	BlockDevice
	CharDevice
	Symlink
	Socket
	FIFO
)

var typeNames = [...]string{"?", "file", "directory", "block device", "character device", "symlink", "socket", "fifo"}

// String names the kind for logs.
func (t Type) String() string {
	if int(t) < len(typeNames) {
		return typeNames[t]
	}
	return typeNames[0]
}

// Time is a point in time, in seconds and nanoseconds since 1970-01-01 00:00 UTC.
type Time struct {
	Sec  int64
	Nsec uint32
}

// Before reports whether t is earlier than u.
func (t Time) Before(u Time) bool { return t.Sec < u.Sec || t.Sec == u.Sec && t.Nsec < u.Nsec }

// Time converts t to a time.Time.
func (t Time) Time() time.Time { return time.Unix(t.Sec, int64(t.Nsec)) }

// Attr are a file's attributes.
type Attr struct {
	Type         Type
	Mode         uint32 // permission, set-id and sticky bits: 07777
	Nlink        uint32
	UID, GID     uint32
	Size         uint64 // bytes
	Used         uint64 // bytes of storage
	Major, Minor uint32 // device numbers, if Type is BlockDevice or CharDevice
	FSID         uint64 // stable over restarts, distinct for each file system of one FileSystem
	FileID       uint64 // inode number
	Atime        Time
	Mtime        Time
	Ctime        Time
	// Change is NFSv4's change attribute. It grows with each change of the content or of the
	// attributes, except Atime and Used, and never falls. If a change runs while the attributes are
	// read, the other attributes may be newer than Change, but never older. In vfs/local, Change is
	// the ctime, or more if the ctime does not grow with each change.
	Change uint64

	// Birth is the time of the file's creation; it is known if HasBirth is set. MountedOn is the file's
	// own number or, for the root of a mounted file system, the number of the directory that the mount
	// covers; 0: unknown. These fields are zero unless Op.Want asks for them.
	Birth     Time
	HasBirth  bool
	MountedOn uint64
}

// Want is a set of attributes, as bits, that cost more to read than the others. If a bit is set in
// Op.Want, GetAttr, Lookup and ReadDir fill in that attribute of each file that they return, but not
// of the directory in which they found it. Other methods may leave these attributes zero.
type Want uint8

// Attributes that are filled in on request.
const (
	WantBirth     Want = 1 << iota // Birth and HasBirth
	WantMountedOn                  // MountedOn
)

// TimeHow is the way to set a time.
type TimeHow uint8

// Ways to set a time, with the numbers of NFSv3 (RFC 1813 §2.6, time_how).
const (
	KeepTime   TimeHow = iota
	ServerTime         // to the server's time
	ClientTime         // to Atime or Mtime of the SetAttr
)

// SetAttr is a change of attributes. Only the attributes that are marked as set change.
type SetAttr struct {
	SetMode, SetUID, SetGID, SetSize bool
	Mode, UID, GID                   uint32
	Size                             uint64
	AtimeHow, MtimeHow               TimeHow
	Atime, Mtime                     Time
	// If UseUmask is set, a call that creates a file removes the bits of Umask (at most 0777) from
	// Mode. If the directory has a default ACL, the ACL decides instead (RFC 8275 §3). UseUmask
	// counts only together with SetMode, and only in calls that create a file.
	UseUmask bool
	Umask    uint32
}

// IsZero reports whether s changes nothing.
func (s *SetAttr) IsZero() bool {
	return !s.SetMode && !s.SetUID && !s.SetGID && !s.SetSize && s.AtimeHow == KeepTime && s.MtimeHow == KeepTime
}

// Masked returns s without the bits of Umask in Mode, for a new file without a default ACL.
func (s SetAttr) Masked() SetAttr {
	if s.UseUmask {
		s.Mode &^= s.Umask & 0o777
		s.UseUmask = false
	}
	return s
}

// OfExclusive returns the part of s that an Exclusive Create applies: all but times and size.
func (s SetAttr) OfExclusive() SetAttr {
	s.AtimeHow, s.MtimeHow, s.SetSize = KeepTime, KeepTime, false
	return s
}

// Change holds an object's attributes before and after a change; HasBefore and HasAfter say which are
// known. Atomic means that no other change of the object came between the two.
type Change struct {
	Before, After       Attr
	HasBefore, HasAfter bool
	Atomic              bool
}

// Usage holds the total and free space of a file system (RFC 1813 §3.3.18), in bytes and files.
// The Available fields count what op.Cred may still use.
type Usage struct {
	TotalBytes, FreeBytes, AvailableBytes uint64
	TotalFiles, FreeFiles, AvailableFiles uint64
}

// Info holds the fixed properties of a file system (RFC 1813 §3.3.19, §3.3.20). Every file system
// refuses names that are too long, restricts chown, keeps the case of names, and is homogeneous.
type Info struct {
	MaxFileSize                          uint64
	MaxName, MaxLink                     uint32
	TimeGranularity                      Time
	HardLinks, Symlinks, CaseInsensitive bool
	CanSetTime, ReadOnly                 bool
}
