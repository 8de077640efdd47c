package server

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/providers"
	"github.com/nfsrdmad/nfsrdmad/server/config"
)

// A deviceTree is the source of doctor's facts about RDMA devices: files beneath a root directory,
// and functions for the facts that are in no file. Tests use a root and functions of their own.
type deviceTree struct {
	root string // the directory that contains sys, dev and proc
	// library returns an error with a remedy if this program cannot use RDMA devices at all.
	library func() error
	// addresses returns the addresses of a network interface.
	addresses func(name string) []string
	// memlock returns the limit of locked memory, in bytes.
	memlock func() uint64
}

// thisMachine is the deviceTree of a daemon.
func thisMachine() *deviceTree {
	return &deviceTree{root: "/", library: func() error { return providers.Ready(providers.Verbs) }, addresses: addressesOf, memlock: config.Memlock}
}

func addressesOf(name string) []string {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return nil
	}
	all, _ := i.Addrs()
	return offered(all)
}

// offered returns the addresses of an interface that the daemon offers to clients: all but link-local ones.
func offered(all []net.Addr) (found []string) {
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLinkLocalUnicast() {
			found = append(found, n.IP.String())
		}
	}
	return found
}

// findings reports on RDMA devices. If the server is to listen for RDMA with the provider verbs,
// all findings are needed except those about single devices.
func (d *deviceTree) findings(cfg *config.Config) []Finding {
	devices := d.devices()
	all := []Finding{d.findLibraries(), d.findDevices(devices)}
	if len(devices) > 0 {
		all = append(all, d.findNode("RDMA connection manager", "rdma_cm", "modprobe rdma_ucm; in a container also --device /dev/infiniband/rdma_cm"), d.findMemlock(cfg))
	}
	listens := slices.ContainsFunc(cfg.RDMA, func(l config.Listen) bool { return !l.None })
	for i := range all {
		all[i].Needed = listens && cfg.RNIC.Provider == providers.Verbs
	}
	for _, name := range devices {
		all = append(all, d.findDevice(name))
	}
	return all
}

// read returns a file's text without the final newline. It returns "" if the file cannot be read.
func (d *deviceTree) read(path ...string) string {
	b, _ := os.ReadFile(filepath.Join(append([]string{d.root}, path...)...))
	return strings.TrimSpace(string(b))
}

const infiniband = "sys/class/infiniband"

// devices returns the names of the RDMA devices.
func (d *deviceTree) devices() (names []string) {
	all, _ := filepath.Glob(filepath.Join(d.root, infiniband, "*"))
	for _, a := range all {
		names = append(names, filepath.Base(a))
	}
	return names
}

func (d *deviceTree) findLibraries() Finding {
	err := d.library()
	return found("RDMA libraries", err == nil, "librdmacm and libibverbs are here", fmt.Sprint(err))
}

func (d *deviceTree) findDevices(names []string) Finding {
	none := "none: the software RNIC needs none. 'rdma link add rxe0 type rxe netdev IF' makes one of a network interface"
	if d.read("sys/module/ib_core/parameters/netns_mode") == "N" {
		none = "none in this network namespace, and RDMA namespaces are exclusive: 'rdma dev set DEV netns NAME' moves a device here, 'rdma system set netns shared' shows all"
	}
	return found("RDMA devices", len(names) > 0, strings.Join(names, ", "), none)
}

// findNode checks that a device node in /dev/infiniband can be opened. The argument load is the
// command that creates the node; the Finding shows it if the node is missing.
func (d *deviceTree) findNode(what, node, load string) Finding {
	path := filepath.Join("dev/infiniband", node)
	f := Finding{What: what, Detail: "/" + path}
	file, err := os.OpenFile(filepath.Join(d.root, path), os.O_RDWR, 0)
	switch {
	case err == nil:
		file.Close()
		f.OK = true
	case errors.Is(err, fs.ErrNotExist):
		f.Detail += " is not there: " + load
	case errors.Is(err, fs.ErrPermission):
		f.Detail += " cannot be opened: its mode is 0666 by rdma-core's rules (udev); in a container add --device, in a unit DeviceAllow="
	default:
		f.Detail += fmt.Sprintf(" cannot be opened: %v", config.Cause(err))
	}
	return f
}

// lockingIsFree is the bit of CAP_IPC_LOCK in a set of capabilities. For a process with this
// capability the drivers of most devices ignore the limit of locked memory.
const lockingIsFree = 1 << unix.CAP_IPC_LOCK

// findMemlock compares the limit of locked memory with the memory that the server locks for
// devices: payload memory, and memory for the messages of connections.
func (d *deviceTree) findMemlock(cfg *config.Config) Finding {
	const what = "locked memory"
	need, limit := uint64(cfg.Memory.Ceiling)+uint64(cfg.RNIC.DeviceMemory), d.memlock()
	if limit == unix.RLIM_INFINITY {
		return found(what, true, "no limit", "")
	}
	detail := fmt.Sprintf("%v, payload memory and messages (memory.ceiling, rnic.device_memory) take %v", config.Size(limit), config.Size(need))
	for line := range strings.Lines(d.read("proc/self/status")) {
		if hex, ok := strings.CutPrefix(line, "CapEff:"); ok {
			if caps, err := strconv.ParseUint(strings.TrimSpace(hex), 16, 64); err == nil && caps&lockingIsFree != 0 {
				return found(what, true, detail+"; CAP_IPC_LOCK lifts the limit, but not with siw before Linux 6.12", "")
			}
		}
	}
	return found(what, limit >= need, detail, detail+": ulimit -l unlimited, LimitMEMLOCK=infinity in the unit, --ulimit memlock=-1 for a container, or lower both keys")
}

// findDevice reports on one device and its first port.
func (d *deviceTree) findDevice(name string) Finding {
	f := Finding{What: "RDMA device " + name}
	port := filepath.Join(infiniband, name, "ports/1")
	state, layer := d.read(port, "state"), d.read(port, "link_layer")
	protocol := "InfiniBand"
	switch {
	case strings.Contains(d.read(infiniband, name, "node_type"), "RNIC"):
		protocol = "iWARP"
	case layer == "Ethernet":
		protocol = "RoCE"
	}
	netdev := cmp.Or(d.read(port, "gid_attrs/ndevs/0"), d.netdevOf(name))
	var addresses []string
	if netdev != "" {
		addresses = d.addresses(netdev)
	}
	_, number, _ := strings.Cut(state, ": ")
	f.Detail = fmt.Sprintf("%s, port 1 %s, interface %s, addresses %s, %d GIDs", protocol, cmp.Or(strings.ToLower(number), "unknown"),
		cmp.Or(netdev, "none"), cmp.Or(strings.Join(addresses, " "), "none"), d.gids(port))
	mtu, _ := strconv.Atoi(d.read("sys/class/net", netdev, "mtu"))
	node := d.nodeOf(name)
	opened := d.findNode("", node, "udev makes it; in a container add --device /dev/infiniband/"+node)
	switch {
	case node == "":
		f.Detail += ": no process can use it: modprobe ib_uverbs"
	case !opened.OK:
		f.Detail += ": " + opened.Detail
	case !strings.Contains(state, "ACTIVE") && protocol == "InfiniBand":
		f.Detail += ": look at the cable, and whether a subnet manager runs (opensm)"
	case !strings.Contains(state, "ACTIVE"):
		f.Detail += fmt.Sprintf(": look at the cable, and ip link set %s up", cmp.Or(netdev, "IF"))
	case netdev != "" && len(addresses) == 0:
		f.Detail += fmt.Sprintf(": clients need an address: ip address add ADDRESS dev %s", netdev)
	default:
		f.OK = true
		switch {
		case strings.HasPrefix(name, "rxe") && mtu > 0 && mtu < rxeMTU:
			f.Detail += fmt.Sprintf("; small packets: ip link set %s mtu %d, here and at the client, makes it faster", netdev, rxeMTU)
		case strings.HasPrefix(name, "siw"):
			f.Detail += "; auto leaves it alone, because it uses the software RNIC's TCP port; --rdma-provider verbs serves it, for tests only"
		}
	}
	return f
}

// rxeMTU is the smallest MTU of a network interface, in bytes, that lets rxe send packets of 4096
// bytes, InfiniBand's largest.
const rxeMTU = 4200

// netdevOf returns the network interface of an RDMA device. A software device (rxe, siw) names it
// in its file parent; a hardware device has it in device/net.
func (d *deviceTree) netdevOf(name string) string {
	all, _ := filepath.Glob(filepath.Join(d.root, infiniband, name, "device/net/*"))
	parent := d.read(infiniband, name, "parent")
	if parent != "" || len(all) == 0 {
		return parent
	}
	return filepath.Base(all[0])
}

// gids returns how many entries of a port's table of addresses (GIDs) are in use.
func (d *deviceTree) gids(port string) (n int) {
	all, _ := filepath.Glob(filepath.Join(d.root, port, "gids/*"))
	for _, g := range all {
		if b, err := os.ReadFile(g); err == nil && strings.Trim(strings.TrimSpace(string(b)), "0:") != "" {
			n++
		}
	}
	return n
}

// nodeOf returns the name of a device's node in /dev/infiniband, such as "uverbs0".
func (d *deviceTree) nodeOf(name string) string {
	all, _ := filepath.Glob(filepath.Join(d.root, "sys/class/infiniband_verbs/*/ibdev"))
	for _, a := range all {
		if b, err := os.ReadFile(a); err == nil && strings.TrimSpace(string(b)) == name {
			return filepath.Base(filepath.Dir(a))
		}
	}
	return ""
}
