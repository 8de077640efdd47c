package vfs

import "time"

// Type is the kind of a file.
type Type uint8

// Kinds of files.
const (
	Regular Type = iota + 1
	Directory
	Symlink
	BlockDevice
	CharDevice
	Socket
	FIFO
)

var typeNames = [...]string{"?", "file", "directory", "symlink", "block device", "character device", "socket", "fifo"}

// String names the kind for logs.
func (t Type) String() string {
	if int(t) < len(typeNames) {
		return typeNames[t]
	}
	return typeNames[0]
}

// Time is a point in time as file systems keep it.
type Time struct {
	Sec  int64
	Nsec uint32
}

// Before says that t is earlier than u.
func (t Time) Before(u Time) bool { return t.Sec < u.Sec || t.Sec == u.Sec && t.Nsec < u.Nsec }

// Time converts.
func (t Time) Time() time.Time { return time.Unix(t.Sec, int64(t.Nsec)) }

// Attr are a file's attributes.
type Attr struct {
	Type         Type
	Mode         uint32 // permission, set-id and sticky bits: 07777
	Nlink        uint32
	UID, GID     uint32
	Size         uint64 // bytes
	Used         uint64 // bytes of storage
	Major, Minor uint32 // devices
	FSID         uint64 // stable over restarts, distinct for each file system of one FileSystem
	FileID       uint64 // inode number
	Atime        Time
	Mtime        Time
	Ctime        Time
	// Change names one state: it differs whenever the content or attributes
	// differ, and only grows. Attributes that were looked at while a change
	// runs may be newer than their Change, and are never older. Locally: the
	// ctime, pushed up in memory where it does not grow with each change.
	Change uint64

	// Birth is the time of the file's creation, where HasBirth says that it is
	// known, and MountedOn the number of the directory that the file system
	// which this file is the root of is mounted on; that of the file itself for
	// all others, and 0 where it is not known. Both are told where Op.Want asks
	// for them, and else zero.
	Birth     Time
	HasBirth  bool
	MountedOn uint64
}

// Want are attributes that cost more than the others, as bits. Of an Op with
// them GetAttr, Lookup and ReadDir fill them in, in what they tell of a file,
// not of the directory that it was found in. No other method needs to.
type Want uint8

// Attributes that are told when they are wanted.
const (
	WantBirth     Want = 1 << iota // Birth and HasBirth
	WantMountedOn                  // MountedOn
)

// TimeHow says how a time is to be set.
type TimeHow uint8

// Ways to set a time.
const (
	KeepTime   TimeHow = iota
	ServerTime         // to the time of the change
	ClientTime         // to the value given
)

// SetAttr is a change of attributes; only what is marked as set changes.
type SetAttr struct {
	SetMode, SetUID, SetGID, SetSize bool
	Mode, UID, GID                   uint32
	Size                             uint64
	AtimeHow, MtimeHow               TimeHow
	Atime, Mtime                     Time
	// UseUmask, of a creation with SetMode: the bits of Umask (0777) are taken
	// off Mode, unless the directory has a default ACL, which then decides in
	// their place (RFC 8275 §3). Other calls do not look at it.
	UseUmask bool
	Umask    uint32
}

// IsZero says that nothing is to be changed.
func (s *SetAttr) IsZero() bool {
	return !s.SetMode && !s.SetUID && !s.SetGID && !s.SetSize && s.AtimeHow == KeepTime && s.MtimeHow == KeepTime
}

// Masked is s with its Umask taken off its Mode, for an implementation that
// creates something where no default ACL decides.
func (s SetAttr) Masked() SetAttr {
	if s.UseUmask {
		s.Mode &^= s.Umask & 0o777
		s.UseUmask = false
	}
	return s
}

// OfExclusive is s as far as an Exclusive Create applies it: without times and
// size.
func (s SetAttr) OfExclusive() SetAttr {
	s.AtimeHow, s.MtimeHow, s.SetSize = KeepTime, KeepTime, false
	return s
}

// Change is what an object looked like around a change of it. A half that is
// not valid is not known. Atomic says that nothing else changed the object
// between the two.
type Change struct {
	Before, After       Attr
	HasBefore, HasAfter bool
	Atomic              bool
}

// Usage is a file system's fill (RFC 1813 §3.3.18), in bytes and files.
// Available is what this caller may still use.
type Usage struct {
	TotalBytes, FreeBytes, AvailableBytes uint64
	TotalFiles, FreeFiles, AvailableFiles uint64
}

// Info are a file system's fixed facts (RFC 1813 §3.3.19, §3.3.20).
type Info struct {
	MaxFileSize                       uint64
	MaxName, MaxLink                  uint32
	TimeGranularity                   Time
	HardLinks, Symlinks               bool
	NoTruncate, ChownRestricted       bool
	CaseInsensitive, CasePreserving   bool
	Homogeneous, CanSetTime, ReadOnly bool
}
