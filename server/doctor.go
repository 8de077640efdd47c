package server

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/providers"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss/krb5"
	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/server/exports"
	"github.com/nfsrdmad/nfsrdmad/server/statedir"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// A Finding is a capability that the machine has or lacks.
type Finding struct {
	What string
	OK   bool
	// Needed is true if the server cannot start without the capability, or cannot serve an export as configured.
	Needed bool
	// Detail describes the capability, or says what to do if the machine lacks it.
	Detail string
}

// Doctor checks what a server with this configuration can do on this machine, and prints one line
// for each capability. It returns how many needed capabilities are missing.
func Doctor(w io.Writer, cfg *config.Config) (missing int, err error) {
	if err := cfg.Check(); err != nil {
		return 0, err
	}
	if err := cfg.CheckListening(); err != nil {
		return 0, err
	}
	return printFindings(w, Findings(cfg)), nil
}

// printFindings prints a line for each finding, and returns how many needed capabilities are missing.
func printFindings(w io.Writer, all []Finding) (missing int) {
	for _, f := range all {
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

// Findings checks the machine and the rights of this process, for a checked configuration.
func Findings(cfg *config.Config) []Finding {
	daemon := lockHolder(cfg.StateDir)
	all := []Finding{findKernel(), findHandles(cfg), findSwitch(), findLinks(), findFiles()}
	for i := range transports {
		t := &transports[i]
		if t.name == "rdma" && cfg.RNIC.Provider == providers.Verbs {
			continue // devices have ports of their own
		}
		all = append(all, findPorts(t.carriedBy, t.listen(cfg), daemon)...)
	}
	all = append(all, findVersions(cfg)...)
	all = append(all, findState(cfg, daemon), findKeytab(cfg), findRpcbind())
	return append(append(all, thisMachine().findings(cfg)...), findSIW())
}

// kernelRelease returns the release of the running kernel, such as 6.12.1.
func kernelRelease() string {
	var u unix.Utsname
	_ = unix.Uname(&u)
	return unix.ByteSliceToString(u.Release[:])
}

// found returns a Finding whose Detail is yes or no, depending on ok.
func found(what string, ok bool, yes, no string) Finding {
	if ok {
		return Finding{What: what, OK: true, Detail: yes}
	}
	return Finding{What: what, Detail: no}
}

func findKernel() Finding {
	fd, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY})
	if err == nil {
		unix.Close(fd)
	}
	running := "Linux " + kernelRelease()
	f := found("kernel", err == nil, running, running+" has no openat2: use Linux 5.6 or later")
	f.Needed = true
	return f
}

// findHandles checks whether the kernel can open files by handle. It checks this on the state
// directory's file system, because in a container the exports' directories may not exist yet.
func findHandles(cfg *config.Config) Finding {
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
	return found("file handles by the kernel", err == nil, "handles outlive restarts and renames at no cost",
		fmt.Sprintf("%v: handles are kept in an index in the state directory instead; CAP_DAC_READ_SEARCH avoids that", err))
}

func findSwitch() Finding {
	id := local.Identity()
	return found("acting as the caller", local.CanSwitch(), "each user's rights are judged by the kernel",
		fmt.Sprintf("only exports with all_squash,anonuid=%d,anongid=%d are served; CAP_SETUID and CAP_SETGID (root) lift that", id.UID, id.GID))
}

// findLinks checks whether clients can link to files of other users. fs.protected_hardlinks can
// prevent that, and clients cannot see this setting.
func findLinks() Finding {
	const what = "links to files of others"
	b, err := os.ReadFile("/proc/sys/fs/protected_hardlinks")
	if err != nil || strings.TrimSpace(string(b)) == "0" {
		return found(what, true, "clients may make them: fs.protected_hardlinks is 0", "")
	}
	return found(what, local.LinksForOthers(), "clients may link to other users' files, except set-id programs: fs.protected_hardlinks binds local users only",
		"clients get EPERM, because fs.protected_hardlinks is set: run the daemon as root, or with CAP_FOWNER and the right to act as the caller")
}

func findFiles() Finding {
	var r unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &r)
	most := int(min(r.Max, 1<<30))
	detail := fmt.Sprintf("up to %d, of which the exports together hold %d at most", r.Max, divide(most, 0).files)
	return found("open files", most >= 4096, detail, detail+": raise it (ulimit -Hn 65536, or LimitNOFILE= in the unit)")
}

func findState(cfg *config.Config, daemon int) Finding {
	f := Finding{What: "state directory", Needed: true, OK: true, Detail: cfg.StateDir}
	dir, _ := exports.Existing(cfg.StateDir)
	switch err := checkState(cfg); {
	case err != nil:
		f.OK, f.Detail = false, err.Error()
	case daemon != 0:
		f.Detail += fmt.Sprintf(" is in use by the nfsrdmad that runs (process %d)", daemon)
	case exports.Vanishes(dir):
		f.OK, f.Needed = false, false
		f.Detail += " is in memory and gone after a reboot, and every client must mount anew then: use a directory on a disk (state_dir, --state-dir)"
	case statedir.User(cfg.StateDir) != os.Geteuid():
		f.Detail += fmt.Sprintf(" belongs to user %d: the daemon has to run as this user, as the service does", statedir.User(cfg.StateDir))
	}
	return f
}

// checkState checks the state directory as a start of statedir.User's daemon does, and writes nothing.
func checkState(cfg *config.Config) error {
	if err := exports.KeepApart(cfg); err != nil {
		return errors.Unwrap(err) // without the place in the configuration
	}
	dir, whole := exports.Existing(cfg.StateDir)
	if err := exports.Writable(dir); err != nil {
		what := dir
		if !whole {
			what = fmt.Sprintf("%s, where %s is to be made,", dir, cfg.StateDir)
		}
		return fmt.Errorf("%s cannot be written (%w): give another with --state-dir", what, config.Cause(err))
	}
	if !whole {
		return nil
	}
	if err := statedir.CheckDir(dir, statedir.User(cfg.StateDir)); err != nil {
		return err
	}
	if _, err := statedir.ReadKey(dir, statedir.User(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	if _, err := exports.ReadStopped(dir); !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}

// findKeytab tries the keytab. It is needed if an export accepts Kerberos.
func findKeytab(cfg *config.Config) Finding {
	mechanism := krb5.New(krb5.Config{Keytab: cfg.Kerberos.Keytab})
	wanted := slices.ContainsFunc(cfg.Exports, func(e config.Export) bool {
		var as export.Export
		e.Options.Apply(&as)
		return exports.WantsKerberos(&as)
	})
	f := Finding{What: "Kerberos keytab", Needed: wanted, OK: true, Detail: cfg.Kerberos.Keytab + " has a key of the principal nfs/HOST"}
	switch err := cmp.Or(mechanism.Check(), mechanism.Exposed()); {
	case err != nil && wanted:
		f.OK, f.Detail = false, "an export accepts Kerberos: "+err.Error()
	case err != nil:
		f.OK, f.Detail = false, "no export accepts Kerberos, so it is not needed: "+err.Error()
	}
	return f
}

func findRpcbind() Finding {
	c, err := net.Dial("unix", "/run/rpcbind.sock")
	if err == nil {
		c.Close()
	}
	return found("rpcbind", err == nil, "NFSv3 is registered with it", "does not run: clients name the ports when they mount (port=, mountport=)")
}

func findSIW() Finding {
	there := slices.ContainsFunc([]string{"kernel/drivers/infiniband/sw/siw", "updates", "updates/dkms"}, func(dir string) bool {
		found, _ := filepath.Glob(filepath.Join("/lib/modules", kernelRelease(), dir, "siw.ko*"))
		return len(found) > 0
	})
	return found("siw, as a client", there, "this machine can mount over RDMA: rdma link add siw0 type siw netdev IF",
		"no module: only a machine that mounts over RDMA needs it")
}
