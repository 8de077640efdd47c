package local

import (
	"encoding/binary"
	"encoding/hex"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// fsid returns the identity of the file system with device number dev; fd is on that file system.
// The identity is the same after a restart of the daemon or the machine. If the kernel derives
// its FSID from the file system's UUID, as on ext4 and btrfs, fsid uses that. XFS, FAT and others
// derive it from the device number, which may differ after a reboot; then fsid uses a hash of the
// UUID.
func (fs *FS) fsid(fd int, dev uint64) uint64 {
	if v, ok := fs.fsids.Load(dev); ok {
		return v.(uint64)
	}
	var id uint64
	var s unix.Statfs_t
	if unix.Fstatfs(fd, &s) == nil {
		id = uint64(uint32(s.Fsid.Val[0]))<<32 | uint64(uint32(s.Fsid.Val[1]))
	}
	if id == 0 || id == dev<<32 {
		id = dev
		if uuid := fs.uuid(dev); uuid != "" {
			h := fnv.New64a()
			h.Write([]byte(uuid))
			id = h.Sum64()
		}
	}
	if fs.cfg.FSID != 0 {
		id = mix(fs.cfg.FSID, id)
	}
	fs.fsids.Store(dev, id)
	return id
}

func mix(a, b uint64) uint64 {
	h := fnv.New64a()
	h.Write(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, a), b))
	return h.Sum64()
}

// fsIocGetUUID is FS_IOC_GETFSUUID (Linux 6.9): one length byte and 16 bytes for the UUID.
const fsIocGetUUID = 0x80111500

// namesOfUUIDs is the directory where udev links UUIDs to block devices.
const namesOfUUIDs = "/dev/disk/by-uuid"

// uuid returns the UUID of the file system with device number dev in hexadecimal digits, or "".
func (fs *FS) uuid(dev uint64) string {
	var b [1 + 16]byte
	if dev == fs.rootStat.Dev {
		_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fs.mount), fsIocGetUUID, uintptr(unsafe.Pointer(&b)))
		if n := int(b[0]); e == 0 && n > 0 && n < len(b) {
			return hex.EncodeToString(b[1 : 1+n])
		}
	}
	return uuidOfDevice(namesOfUUIDs, dev)
}

// uuidOfDevice returns the name of the block device dev in the directory dir, without dashes, or
// "".
func uuidOfDevice(dir string, dev uint64) string {
	names, _ := os.ReadDir(dir)
	for _, e := range names {
		var st unix.Stat_t
		if unix.Stat(filepath.Join(dir, e.Name()), &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFBLK && st.Rdev == dev {
			return strings.ToLower(strings.ReplaceAll(e.Name(), "-", ""))
		}
	}
	return ""
}
