package lab

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// packages are the Debian packages that the whole test suite needs, grouped by purpose.
var packages = []string{
	// For the guests: mount, NFS and RDMA tools, and knfsd as another server.
	"busybox-static", "kmod", "iproute2", "nfs-common", "nfs-kernel-server", "rpcbind", "keyutils",
	"rdma-core", "libibverbs-dev", "librdmacm-dev", "ibverbs-providers", "ibverbs-utils", "rdmacm-utils", "attr", "acl", "e2fsprogs",
	// For building the kernels and siw, and for compiling a part of Linux's source in a guest.
	"build-essential", "bc", "bison", "flex", "libelf-dev", "xz-utils",
	// For running stock kernels.
	"qemu-system-x86",
	// For load, capture and dissection.
	"fio", "stress-ng", "tcpdump", "tshark",
	// Servers and clients of other projects.
	"nfs-ganesha", "nfs-ganesha-vfs", "libnfs-utils", "prometheus",
	// For Kerberos: a KDC, and MIT's library as a peer.
	"krb5-kdc", "krb5-admin-server", "krb5-user", "python3-gssapi",
	// For the copies of file systems that a client makes.
	"rsync",
	// For the file systems that the tests of vfs/local use.
	"xfsprogs", "btrfs-progs", "dosfstools", "bindfs", "fuse-overlayfs",
	// For building the container images, and for running them.
	"buildah", "mmdebstrap", "podman", "crun",
	// For running the daemon under systemd, for testing that systemd accepts the unit file, and that
	// the unit file permits the daemon's system calls.
	"systemd", "dbus", "strace",
}

// MissingPackages returns the packages of the test suite that are not installed on this machine.
func MissingPackages() []string {
	installed := map[string]bool{}
	// dpkg-query fails if it does not know one of the packages, but still prints the others.
	out, _ := exec.Command("dpkg-query", append([]string{"-W", "-f", "${db:Status-Status} ${Package}\n"}, packages...)...).Output()
	for line := range strings.Lines(string(out)) {
		if state, name, found := strings.Cut(strings.TrimSpace(line), " "); found && state == "installed" {
			installed[name] = true
		}
	}
	var missing []string
	for _, name := range packages {
		if !installed[name] {
			missing = append(missing, name)
		}
	}
	return missing
}

// InstallPackages installs the MissingPackages by one call of apt-get. It does not start their
// services.
func InstallPackages(progress io.Writer) error {
	missing := MissingPackages()
	if len(missing) == 0 {
		return nil
	}
	names := strings.Join(missing, " ")
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("this machine has no apt-get, so the tests' packages cannot be installed: they need Debian 12, or what stands for these packages there: %s", names)
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("the tests need these packages, and installing them must be done as root: apt-get install %s", names)
	}
	fmt.Fprintf(progress, "lab: installing %s\n", names)
	restore, err := forbidServices()
	if err != nil {
		return err
	}
	defer restore()
	r := recipe{folder: "/"}
	if err := r.run("apt-get", "update", "-q"); err != nil {
		return err
	}
	return r.run("apt-get", append([]string{"install", "-y", "-q", "--no-install-recommends"}, missing...)...)
}

// forbidServices prevents apt-get from starting the services of the packages. Before Debian's
// packages start a service, they run policy-rc.d; its exit status 101 forbids the start. If this
// machine's policy-rc.d already exits with 101, it is not changed. Otherwise another one takes its
// place until restore is called.
func forbidServices() (restore func(), err error) {
	const policy = "/usr/sbin/policy-rc.d"
	if err := exec.Command(policy, "rpcbind", "start").Run(); err != nil && exitCode(err) == 101 {
		return func() {}, nil
	}
	kept := filepath.Join(filepath.Dir(policy), "policy-rc.d.nfsrdmad-lab")
	renamed := os.Rename(policy, kept) == nil
	restore = func() {
		if renamed {
			os.Rename(kept, policy)
		} else {
			os.Remove(policy)
		}
	}
	if err := os.WriteFile(policy, []byte("#!/bin/sh\nexit 101\n"), 0o755); err != nil {
		restore()
		return nil, fmt.Errorf("keeping services from starting: %w", err)
	}
	return restore, nil
}

func exitCode(err error) int {
	if exit, ok := err.(*exec.ExitError); ok {
		return exit.ExitCode()
	}
	return -1
}
