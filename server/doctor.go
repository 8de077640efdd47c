package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/providers"
	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/server/exports"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// A Finding is a capability that the machine has or lacks.
type Finding struct {
	What string
	OK   bool
	// Needed is true if the server cannot run without the capability.
	Needed bool
	// Detail describes the capability, or says what to do if the machine lacks it.
	Detail string
}

// Doctor checks what a server with this configuration can do on this machine, and prints one line
// for each capability. It returns how many needed capabilities are missing.
func Doctor(w io.Writer, cfg *config.Config) (missing int, err error) {
	if err := cfg.Check(); err != nil {
		return 0, cfg.Fault(err)
	}
	if err := cfg.CheckListening(); err != nil {
		return 0, cfg.Fault(err)
	}
	for _, f := range Findings(cfg) {
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
	return missing, nil
}

// Findings checks the machine and the rights of this process, for a checked configuration.
func Findings(cfg *config.Config) []Finding {
	all := []Finding{findKernel(), findHandles(cfg), findSwitch(), findLinks(), findFiles()}
	for i := range transports {
		t := &transports[i]
		if t.name == "rdma" && cfg.RNIC.Provider == providers.Verbs {
			continue // devices have ports of their own
		}
		all = append(all, findPorts(t.carriedBy, t.listen(cfg))...)
	}
	all = append(all, findState(cfg), findRpcbind())
	return append(append(all, thisMachine().findings(cfg)...), findSIW())
}

// kernelRelease returns the release of the running kernel, such as 6.12.1.
func kernelRelease() string {
	var u unix.Utsname
	_ = unix.Uname(&u)
	return unix.ByteSliceToString(u.Release[:])
}

func findKernel() Finding {
	f := Finding{What: "kernel", Needed: true, Detail: "Linux " + kernelRelease()}
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY}
	fd, err := unix.Openat2(unix.AT_FDCWD, "/", &how)
	if f.OK = err == nil; f.OK {
		unix.Close(fd)
	} else {
		f.Detail += " has no openat2: use Linux 5.6 or later"
	}
	return f
}

// findHandles checks whether the kernel can open files by handle. It checks this on the state
// directory's file system, because in a container the exports' directories may not exist yet.
func findHandles(cfg *config.Config) Finding {
	f := Finding{What: "file handles by the kernel"}
	dir, _ := exports.Existing(cfg.StateDir)
	h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, dir, 0)
	if err == nil {
		var mount, fd int
		if mount, err = unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
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

// findLinks checks whether clients can link to files of other users. fs.protected_hardlinks can
// prevent that, and clients cannot see this setting.
func findLinks() Finding {
	f := Finding{What: "links to files of others", OK: true, Detail: "made for clients, as POSIX has it: fs.protected_hardlinks is 0"}
	b, err := os.ReadFile("/proc/sys/fs/protected_hardlinks")
	if err != nil || strings.TrimSpace(string(b)) == "0" {
		return f
	}
	if f.OK = local.LinksForOthers(); f.OK {
		f.Detail = "made for clients, but to set-id programs; fs.protected_hardlinks is for this machine's own users"
		return f
	}
	f.Detail = "clients get EPERM: fs.protected_hardlinks is set, and it takes CAP_FOWNER and acting as the caller to pass over it"
	return f
}

func findFiles() Finding {
	var r unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &r)
	most := int(min(r.Max, 1<<30))
	f := Finding{What: "open files", OK: most >= 4096, Detail: fmt.Sprintf("up to %d, of which the exports together hold %d at most", r.Max, descriptorsForFiles(most, seatsWithin(most, 0)))}
	if !f.OK {
		f.Detail += ": raise it (ulimit -Hn 65536, or LimitNOFILE= in the unit)"
	}
	return f
}

func findPorts(what string, all []config.Listen) (found []Finding) {
	for _, a := range addresses(all) {
		f := Finding{What: fmt.Sprintf("port %d (%s)", a.Port(), what), Needed: true, OK: true, Detail: "free"}
		l, err := new(net.ListenConfig).Listen(context.Background(), network(a), a.String())
		switch {
		case err == nil:
			l.Close()
		case errors.Is(err, syscall.EADDRINUSE):
			f.OK, f.Detail = false, fmt.Sprintf("%s is in use: by a server that runs already; stop it, or see --tcp and --rdma", a)
		default:
			f.OK, f.Detail = false, listenError(what, a, err).Error()
		}
		found = append(found, f)
	}
	return found
}

// findState checks the state directory as a start does, and leaves nothing in it.
func findState(cfg *config.Config) Finding {
	f := Finding{What: "state directory", Needed: true, Detail: cfg.StateDir}
	bad := func(err error) Finding {
		f.Detail = err.Error()
		return f
	}
	if err := exports.KeepApart(cfg); err != nil {
		return bad(err)
	}
	dir, whole := exports.Existing(cfg.StateDir)
	// Try to write, because the permissions do not show whether the daemon can write: not even root
	// can write to /proc, for example.
	tried, err := os.MkdirTemp(dir, ".nfsrdmad-doctor-")
	if err != nil {
		what := dir
		if !whole {
			what = fmt.Sprintf("%s, where %s is to be made,", dir, cfg.StateDir)
		}
		return bad(fmt.Errorf("%s cannot be written (%w): give another with --state-dir", what, config.Cause(err)))
	}
	os.Remove(tried)
	if whole {
		if err := checkStateDir(dir); err != nil {
			return bad(err)
		}
		if key, err := os.Open(filepath.Join(dir, keyFile)); err == nil {
			defer key.Close()
			if err := checkKey(key); err != nil {
				return bad(err)
			}
		}
	}
	f.OK = true
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

func findSIW() Finding {
	for _, dir := range []string{"kernel/drivers/infiniband/sw/siw", "updates", "updates/dkms"} {
		if found, _ := filepath.Glob(filepath.Join("/lib/modules", kernelRelease(), dir, "siw.ko*")); len(found) > 0 {
			return Finding{What: "siw, as a client", OK: true, Detail: "this machine can mount over RDMA: rdma link add siw0 type siw netdev IF"}
		}
	}
	return Finding{What: "siw, as a client", Detail: "no module: only a machine that mounts over RDMA needs it"}
}
