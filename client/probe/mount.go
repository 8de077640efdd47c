package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/mount3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// Mounting says how this machine mounts from the server.
type Mounting struct {
	// Commands mount what this machine may mount, one for each export and transport.
	Commands []string `json:"commands"`
	// Lacks are sentences about what this machine lacks for some or all of the commands or for RDMA, and about what the
	// commands do not give.
	Lacks []string `json:"lacks,omitempty"`
}

// A machine is what mounting needs of the machine of the client.
type machine struct{ mount, rdma, keytab bool }

// thisMachine returns what this machine has.
func thisMachine() machine {
	there := func(names ...string) bool {
		return slices.ContainsFunc(names, func(pattern string) bool {
			found, _ := filepath.Glob(pattern)
			return len(found) > 0
		})
	}
	return machine{
		mount:  there("/sbin/mount.nfs", "/usr/sbin/mount.nfs", "/usr/bin/mount.nfs"),
		rdma:   there("/sys/class/infiniband/*"),
		keytab: there("/etc/krb5.keytab"),
	}
}

// why returns the reason, in a user's words, for which the server refuses to let this machine mount an export. err is
// that of MNT.
func why(err error) string {
	refusal, refused := errors.AsType[*client.MountError](err)
	switch {
	case !refused:
		return "" // nothing is known
	case refusal.Status == mount3wire.ErrNoEnt:
		return "the server lists it, but says that it does not exist: its directory may be gone"
	case refusal.Status != mount3wire.ErrAccess:
		return fmt.Sprintf("the server refuses it with %v: see the server's log", refusal.Status)
	case os.Geteuid() != 0:
		return "the server refuses this machine's address, or this user's port: run probe as root, whose port is below 1024 as mount's is; else the export has to name this machine (clients= of nfsrdmad)"
	}
	return "the server refuses this machine's address: the export has to name this machine (clients= of nfsrdmad)"
}

// names4 finds out which exports have the same name by NFS version 4 as by MOUNT.
func (b *prober) names4(ctx context.Context, all []Export) {
	if b.out.NFS4 == nil || b.out.NFS4.Minor == 0 {
		return
	}
	ctx, cancel := b.step(ctx)
	defer cancel()
	s, err := b.session(ctx, b.out.NFS4.Minor)
	if err != nil {
		return
	}
	defer s.Close()
	for i := range all {
		_, err := s.NFS4().Walk(ctx, nil, all[i].Path)
		all[i].byVersion4 = err == nil || client.Refused(err)
		if client.StatusOf(err) == wire.NFS4ErrNoEnt && !b.out.has(nfs3wire.Program, 3) {
			all[i].Refused = "the server lists it, but NFS version 4 has no such name for this machine: the export has to name this machine (clients= of nfsrdmad), or its directory is gone"
		}
	}
}

// mounting returns how a machine mounts from the server.
func (p *Report) mounting(m machine) *Mounting {
	how := &Mounting{Commands: []string{}}
	lack := func(format string, args ...any) {
		if text := fmt.Sprintf(format, args...); !slices.Contains(how.Lacks, text) {
			how.Lacks = append(how.Lacks, text)
		}
	}
	exports := p.Exports
	if p.ExportsFault != "" { // by NFS version 4 the root of all exports has this name
		exports = []Export{{Export: client.Export{Path: "/"}, byVersion4: true}}
	}
	for i := range p.Transports {
		t := &p.Transports[i]
		switch {
		case !t.NFS:
			continue
		case t.Transport == client.RDMA && !m.rdma:
			lack("Over RDMA the server can be mounted, but this machine has no RDMA device: 'rdma link add siw0 type siw netdev IF' makes one of a network interface, where the kernel has siw.")
			continue
		}
		for _, e := range exports[:min(len(exports), maxAsked)] {
			if e.Refused != "" {
				continue
			}
			if e.kerberosOnly() && e.kerberos() == client.None {
				lack("There is no command for %s: it accepts only %s, and mount proves who calls by sys, krb5, krb5i or krb5p.", e.Path, joined(e.Flavors))
				continue
			}
			if command := p.mountCommand(t, &e); command != "" {
				how.Commands = append(how.Commands, command)
				if e.kerberosOnly() && !m.keytab {
					lack("A mount with Kerberos needs a key of this machine, /etc/krb5.keytab, and the service rpc-gssd.")
				}
			}
		}
	}
	if slices.ContainsFunc(how.Commands, func(c string) bool { return strings.Contains(c, "nolock") }) {
		lack("With nolock the locks of NFS version 3 hold on this machine alone. Leave it out if 'rpcinfo -p %s' lists nlockmgr.", p.Host)
	}
	if len(how.Commands) > 0 && !m.mount {
		lack("The program mount.nfs is not installed: the package is nfs-common (Debian, Ubuntu) or nfs-utils (Fedora, RHEL, Arch), nfs-client (SUSE).")
	}
	return how
}

// kerberos returns the first flavor with Kerberos that the export accepts, or client.None.
func (e *Export) kerberos() client.Flavor {
	for _, f := range e.Flavors {
		if f >= client.Krb5 && f <= client.Krb5p {
			return f
		}
	}
	return client.None
}

// kerberosOnly reports whether the export is known not to accept sys.
func (e *Export) kerberosOnly() bool {
	return len(e.Flavors) > 0 && !slices.Contains(e.Flavors, client.Sys)
}

// mountCommand returns the command that mounts an export over t, or "" if there is none: by NFS version 3
// mount needs TCP for the MOUNT service.
func (p *Report) mountCommand(t *Listener, e *Export) string {
	host, six := p.Host, t.six
	if literal, err := netip.ParseAddr(host); err == nil && literal.Is6() {
		host, six = "["+host+"]", true
	}
	_, port, _ := client.SplitHostPort(t.Address)
	var options []string
	switch {
	case t.Transport == client.RDMA:
		options = append(options, choose(six, "proto=rdma6", "proto=rdma"), fmt.Sprintf("port=%d", port))
	case port != client.PortNFS:
		options = append(options, fmt.Sprintf("port=%d", port))
	}
	if !t.has(nfs3wire.Program, 4) || !e.byVersion4 && t.has(nfs3wire.Program, 3) {
		mountPort := p.mountService()
		if mountPort == 0 {
			return ""
		}
		if t.Transport == client.TCP {
			// Without both of these mount.nfs asks the server's rpcbind, which may not be there.
			options = []string{choose(six, "proto=tcp6", "proto=tcp"), fmt.Sprintf("port=%d", port)}
		}
		options = append([]string{"vers=3"}, options...)
		options = append(options, fmt.Sprintf("mountport=%d", mountPort), "mountproto="+choose(six, "tcp6", "tcp"), "nolock")
	}
	if e.kerberosOnly() {
		options = append(options, "sec="+e.kerberos().String())
	}
	with := ""
	if len(options) > 0 {
		with = "-o " + strings.Join(options, ",") + " "
	}
	return fmt.Sprintf("mount -t nfs %s%s /mnt", with, shellWord(host+":"+e.Path))
}

// mountService returns the TCP port of the MOUNT service, or 0.
func (p *Report) mountService() uint16 {
	if p.mountPort != 0 {
		return p.mountPort
	}
	for i := range p.Transports {
		t := &p.Transports[i]
		_, port, err := client.SplitHostPort(t.Address)
		if err == nil && t.Transport == client.TCP && t.has(mount3wire.Program, mount3wire.Version) {
			return uint16(port)
		}
	}
	return 0
}

// has reports whether the server answered this version of a program.
func (t *Listener) has(program, version uint32) bool {
	return slices.ContainsFunc(t.Programs, func(p Program) bool { return p.Number == program && slices.Contains(p.Versions, version) })
}

// shellWord quotes s for a shell if necessary.
func shellWord(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@%+,"
	if strings.Trim(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// print writes how to mount at the end of the report.
func (how *Mounting) print(w io.Writer, p *Report) {
	if how == nil {
		return
	}
	fmt.Fprintln(w, "to mount from this machine, as root")
	for _, c := range how.Commands {
		fmt.Fprintf(w, "  %s\n", shown(c))
	}
	for _, e := range p.Exports {
		if e.Refused != "" {
			fmt.Fprintf(w, "  not %s: %s\n", shown(e.Path), shown(e.Refused))
		}
	}
	if more := len(p.Exports) - maxAsked; more > 0 {
		fmt.Fprintf(w, "  and %d more exports\n", more)
	}
	if len(how.Commands) == 0 && !slices.ContainsFunc(p.Exports, func(e Export) bool { return e.Refused != "" }) {
		fmt.Fprintln(w, "  nothing: the server shows this machine no export, or cannot be mounted over what was tried")
	}
	for _, l := range how.Lacks {
		fmt.Fprintf(w, "  %s\n", shown(l))
	}
}
