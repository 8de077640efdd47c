package server

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// A Finding is one thing that the machine has or lacks.
type Finding struct {
	What string
	OK   bool
	// Needed: without it a server cannot do its work at all.
	Needed bool
	// Detail says what there is, or what to do about it.
	Detail string
}

// Doctor prints what this machine lets a server do, a line each, and returns how
// many needed things are missing.
func Doctor(w io.Writer) (missing int) {
	for _, f := range Findings() {
		mark := "yes"
		switch {
		case !f.OK && f.Needed:
			mark = "no"
			missing++
		case !f.OK:
			mark = "without"
		}
		fmt.Fprintf(w, "%-8s %-28s %s\n", mark, f.What, f.Detail)
	}
	return missing
}

// Findings looks at the machine and this process's rights.
func Findings() []Finding {
	return []Finding{
		findKernel(), findHandles(), findSwitch(), findFiles(),
		findPort("port 2049 (TCP)", DefaultTCPPort), findPort("port 20049 (software RDMA)", DefaultRDMAPort),
		findState(), findRpcbind(), findDevices(), findSIW(),
	}
}

func findKernel() Finding {
	var u unix.Utsname
	_ = unix.Uname(&u)
	f := Finding{What: "kernel", Needed: true, Detail: "Linux " + unix.ByteSliceToString(u.Release[:])}
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY}
	fd, err := unix.Openat2(unix.AT_FDCWD, "/", &how)
	if f.OK = err == nil; f.OK {
		unix.Close(fd)
	} else {
		f.Detail += " has no openat2: use Linux 5.6 or later"
	}
	return f
}

func findHandles() Finding {
	f := Finding{What: "file handles by the kernel"}
	h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, "/tmp", 0)
	if err == nil {
		var mount, fd int
		if mount, err = unix.Open("/tmp", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
			defer unix.Close(mount)
			if fd, err = unix.OpenByHandleAt(mount, h, unix.O_PATH|unix.O_CLOEXEC); err == nil {
				unix.Close(fd)
			}
		}
	}
	f.OK, f.Detail = err == nil, "handles outlive restarts and renames at no cost"
	if err != nil {
		f.Detail = fmt.Sprintf("%v: handles are kept in an index in the state directory instead; CAP_DAC_READ_SEARCH avoids that", err)
	}
	return f
}

func findSwitch() Finding {
	f := Finding{What: "acting as the caller", OK: local.CanSwitch(), Detail: "each user's rights are judged by the kernel"}
	if !f.OK {
		id := local.Identity()
		f.Detail = fmt.Sprintf("only exports with all_squash,anonuid=%d,anongid=%d are served; CAP_SETUID and CAP_SETGID (root) lift that", id.UID, id.GID)
	}
	return f
}

func findFiles() Finding {
	var r unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &r)
	f := Finding{What: "open files", OK: r.Max >= 4096, Detail: fmt.Sprintf("up to %d", r.Max)}
	if !f.OK {
		f.Detail += ": raise it (ulimit -Hn 65536, or LimitNOFILE= in the unit)"
	}
	return f
}

func findPort(what string, port int) Finding {
	l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
	if err != nil {
		return Finding{What: what, Detail: fmt.Sprintf("%v: a server that runs already has it, or see --tcp and --rdma", cause(err))}
	}
	l.Close()
	return Finding{What: what, OK: true, Detail: "free"}
}

func findState() Finding {
	f := Finding{What: "state directory", Detail: DefaultStateDir}
	dir := DefaultStateDir
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(dir); err == nil {
			break
		}
	}
	if f.OK = unix.Access(dir, unix.W_OK) == nil; !f.OK {
		f.Detail += " cannot be written by this user: give another with --state-dir"
	}
	return f
}

func findRpcbind() Finding {
	f := Finding{What: "rpcbind", Detail: "NFSv3 is registered with it"}
	c, err := net.Dial("unix", "/run/rpcbind.sock")
	if f.OK = err == nil; f.OK {
		c.Close()
	} else {
		f.Detail = "does not run: clients name the ports when they mount (port=, mountport=)"
	}
	return f
}

func findDevices() Finding {
	names, _ := filepath.Glob("/sys/class/infiniband/*")
	for i := range names {
		names[i] = filepath.Base(names[i])
	}
	if len(names) == 0 {
		return Finding{What: "RDMA devices", Detail: "none: the software RNIC needs none"}
	}
	return Finding{What: "RDMA devices", OK: true, Detail: strings.Join(names, ", ") + " (the software RNIC does not use them)"}
}

func findSIW() Finding {
	var u unix.Utsname
	_ = unix.Uname(&u)
	release := unix.ByteSliceToString(u.Release[:])
	for _, dir := range []string{"kernel/drivers/infiniband/sw/siw", "updates", "updates/dkms"} {
		if found, _ := filepath.Glob(filepath.Join("/lib/modules", release, dir, "siw.ko*")); len(found) > 0 {
			return Finding{What: "siw, as a client", OK: true, Detail: "this machine can mount over RDMA: rdma link add siw0 type siw netdev IF"}
		}
	}
	return Finding{What: "siw, as a client", Detail: "no module: only a machine that mounts over RDMA needs it"}
}
