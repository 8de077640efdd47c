package local

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// identity is the user, the group and the supplementary groups of a thread.
type identity struct {
	uid, gid uint32
	groups   []uint32 // sorted, each once
}

// Identity returns the daemon's own identity. If CanSwitch is false, the server acts as this
// identity for every caller.
func Identity() vfs.Cred {
	id := ownIdentity()
	return vfs.Cred{UID: id.uid, GID: id.gid, Groups: id.groups}
}

func ownIdentity() identity {
	id := identity{uid: uint32(unix.Geteuid()), gid: uint32(unix.Getegid())}
	if groups, err := unix.Getgroups(); err == nil {
		for _, g := range groups {
			id.groups = append(id.groups, uint32(g))
		}
	}
	slices.Sort(id.groups)
	id.groups = slices.Compact(id.groups)
	return id
}

// id.is(c) reports whether c has exactly the user and the groups of id. id.within(c) reports
// whether c has the user and the group of id, and no group that id lacks.
func (id *identity) is(c *vfs.Cred) bool {
	if c.UID != id.uid || c.GID != id.gid || !id.holds(c.Groups) {
		return false
	}
	for _, g := range id.groups {
		if g != c.GID && !slices.Contains(c.Groups, g) {
			return false
		}
	}
	return true
}

func (id *identity) within(c *vfs.Cred) bool {
	return c.UID == id.uid && c.GID == id.gid && id.holds(c.Groups)
}

func (id *identity) holds(groups []uint32) bool {
	for _, g := range groups {
		if _, ok := slices.BinarySearch(id.groups, g); !ok && g != id.gid {
			return false
		}
	}
	return true
}

// owns reports whether c owns the file. In a user namespace all unmapped owners have the same ID;
// that ID owns nothing.
func (fs *FS) owns(c *vfs.Cred, st *unix.Stat_t) bool {
	return c.UID == st.Uid && c.UID != fs.unmapped
}

// unmappedUser returns the ID that stands for users who are not mapped into this process's user
// namespace, or noID if all users are mapped.
func unmappedUser() uint32 {
	var first, host, size uint64
	b, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return noID
	}
	if n, _ := fmt.Sscan(string(b), &first, &host, &size); n == 3 && first == 0 && host == 0 && size >= 1<<32-1 {
		return noID
	}
	id := uint64(65534)
	if b, err = os.ReadFile("/proc/sys/kernel/overflowuid"); err == nil {
		if v, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 32); err == nil {
			id = v
		}
	}
	return uint32(id)
}

// member reports whether c has group g.
func member(c *vfs.Cred, g uint32) bool { return c.GID == g || slices.Contains(c.Groups, g) }
