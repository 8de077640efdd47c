package server

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/server/exports"
	"github.com/nfsrdmad/nfsrdmad/server/statedir"
)

// findPorts checks whether the server can listen at addresses. It does not try, so that it disturbs no
// server that runs or starts. daemon is the process that holds the state directory, or 0.
func findPorts(what string, listen []config.Listen, daemon int) (all []Finding) {
	listeners := readListeners()
	for _, a := range addresses(listen) {
		f := Finding{What: fmt.Sprintf("port %d (%s)", a.Port(), what), Needed: true, OK: true, Detail: "free"}
		i := slices.IndexFunc(listeners, func(l takenPort) bool { return config.Collide(l.AddrPort, a) })
		owner := 0
		if i >= 0 {
			owner = ownerOf(listeners[i].inode)
		}
		switch err := bindable(a); {
		case err != nil:
			f.OK, f.Detail = false, listenError(what, a, err).Error()
		case i < 0:
		case owner != 0 && owner == daemon:
			f.Detail = fmt.Sprintf("in use by the nfsrdmad that runs with this state directory (process %d)", daemon)
		case owner != 0:
			f.OK, f.Detail = false, fmt.Sprintf("%s is in use by process %d (%s): stop it, or see --tcp and --rdma", a, owner, nameOfProcess(owner))
		default:
			f.OK, f.Detail = false, fmt.Sprintf("%s is in use, by Linux's own server or a process of another user: stop it, or see --tcp and --rdma", a)
		}
		all = append(all, f)
	}
	return all
}

// bindable returns the error of listening at an address that nothing else uses. It tries the address with
// a port that the kernel chooses.
func bindable(a netip.AddrPort) error {
	family, to := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Addr: a.Addr().As16()})
	if a.Addr().Is4() {
		family, to = unix.AF_INET, &unix.SockaddrInet4{Addr: a.Addr().As4()}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, to); err != nil {
		return err
	}
	if p := a.Port(); p != 0 && int(p) < firstFreePort() && !exports.Capable(unix.CAP_NET_BIND_SERVICE) {
		return unix.EACCES
	}
	return nil
}

// firstFreePort returns the first port that every process may use (ip(7), ip_unprivileged_port_start).
func firstFreePort() int {
	b, err := os.ReadFile("/proc/sys/net/ipv4/ip_unprivileged_port_start")
	n, bad := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || bad != nil {
		return 1024
	}
	return n
}

// A takenPort is the address of a TCP socket that listens.
type takenPort struct {
	netip.AddrPort
	inode uint64
}

// readListeners returns the addresses at which sockets of this network namespace listen, those of IPv6 too (proc(5), net/tcp).
func readListeners() (all []takenPort) {
	for _, name := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			words := strings.Fields(lines.Text())
			if len(words) < 10 || words[3] != "0A" {
				continue
			}
			inode, err := strconv.ParseUint(words[9], 10, 64)
			if a, ok := parseHexAddress(words[1]); ok && err == nil {
				all = append(all, takenPort{a, inode})
			}
		}
		f.Close()
	}
	return all
}

// parseHexAddress parses an address of /proc/net/tcp: words of 32 bits in the byte order of the machine,
// and the port.
func parseHexAddress(s string) (netip.AddrPort, bool) {
	digits, port, _ := strings.Cut(s, ":")
	p, err := strconv.ParseUint(port, 16, 16)
	var b []byte
	for ; err == nil && len(digits) >= 8; digits = digits[8:] {
		var n uint64
		n, err = strconv.ParseUint(digits[:8], 16, 32)
		b = binary.NativeEndian.AppendUint32(b, uint32(n))
	}
	a, ok := netip.AddrFromSlice(b)
	return netip.AddrPortFrom(a, uint16(p)), ok && err == nil
}

// ownerOf returns the process that has the socket with an inode number, or 0 if that is unknown.
func ownerOf(socket uint64) int {
	want := fmt.Sprintf("socket:[%d]", socket)
	all, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, fd := range all {
		if link, err := os.Readlink(fd); err == nil && link == want {
			pid, _ := strconv.Atoi(strings.Split(fd, "/")[2])
			return pid
		}
	}
	return 0
}

func nameOfProcess(pid int) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return strings.TrimSpace(string(b))
}

// lockHolder returns the process that holds the lock of a state directory, or 0 if there is none. It does
// not try to take the lock.
func lockHolder(stateDir string) int {
	var st unix.Stat_t
	if unix.Stat(filepath.Join(stateDir, statedir.Lock), &st) != nil {
		return 0
	}
	b, _ := os.ReadFile("/proc/locks")
	for line := range strings.Lines(string(b)) {
		// 1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF
		words := strings.Fields(line)
		if len(words) < 6 || words[1] != "FLOCK" || words[3] != "WRITE" || !strings.HasSuffix(words[5], ":"+strconv.FormatUint(st.Ino, 10)) {
			continue
		}
		pid, _ := strconv.Atoi(words[4])
		return pid
	}
	return 0
}
