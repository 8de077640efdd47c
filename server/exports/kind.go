package exports

import (
	"fmt"
	"slices"
	"strings"
)

// refuseMachine returns an error if dir lies on a file system of a kind that the server never serves.
func refuseMachine(dir, kind string) error {
	if !slices.Contains(machines, kind) {
		return nil
	}
	return fmt.Errorf("%s lies on %s, which shows the machine itself and not files: export another directory", dir, kind)
}

// lacks returns what an export on a file system of this kind cannot keep, although clients expect it of
// NFS; "" if it keeps everything.
func lacks(kind string) string {
	base, _, _ := strings.Cut(kind, ".") // fuse.sshfs is a fuse
	switch base {
	case "nfs", "nfs4":
		return "a file that is removed while it is open stays as .nfs… until it is closed, so that its directory cannot be removed before; locks hold for clients of this server alone; a change made at the other server shows late: export the directory at the server that has it"
	case "cifs", "smb3", "9p", "virtiofs", "ceph":
		return "file handles may become stale when it is mounted anew, and a change made on another machine shows late: export the directory at the machine that has it"
	case "fuse", "fuseblk":
		return "file handles become stale when it is mounted anew, and the rest depends on its program (docs/filesystems.md); a daemon that is not root needs the mount option allow_other"
	}
	return ""
}
