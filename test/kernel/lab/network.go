package lab

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Host is this machine's address in every Network.
const Host = "10.0.2.2"

// firstGuest is the last byte of the first address that attach gives to a guest. Tests choose
// lower addresses themselves.
const firstGuest = 15

// networkPrefix begins the name of every network namespace of the lab. The id of the process that
// made it and a number follow.
const networkPrefix = "nfsrdmad-lab-"

var networksMade atomic.Int32

// Network is a network namespace with a bridge, br0. In it this machine has the address Host, and
// every guest has a tap.
type Network struct {
	name string
	t    testing.TB
	mtu  int

	mu    sync.Mutex
	taken map[int]bool
}

// NewNetwork creates a network. The network, and every process that was started in it, ends with
// the test. NewNetwork ends the test if the machine cannot create networks.
func NewNetwork(t testing.TB) *Network {
	t.Helper()
	return NewNetworkOf(t, ethernetMTU)
}

// ethernetMTU is the MTU of an ordinary Ethernet, in bytes.
const ethernetMTU = 1500

// NewNetworkOf is NewNetwork with an MTU. siw puts at most one TCP segment into an FPDU, even if
// the interface could offload segmentation. So siw needs less processor time for sending if the MTU
// is larger.
func NewNetworkOf(t testing.TB, mtu int) *Network {
	t.Helper()
	if err := usable(); err != nil {
		t.Fatal(err)
	}
	watchInterrupts()
	if interrupted.Load() {
		select {} // a signal handler is about to end the program
	}
	sweepOnce()
	n := &Network{
		name:  fmt.Sprintf("%s%d-%d", networkPrefix, os.Getpid(), networksMade.Add(1)),
		t:     t,
		mtu:   mtu,
		taken: map[int]bool{},
	}
	t.Cleanup(func() {
		if err := endNetwork(n.name); err != nil {
			t.Error(err)
		}
	})
	n.ip("netns", "add", n.name)
	n.inside("link", "set", "lo", "up")
	// The bridge gets a fixed hardware address. Otherwise it takes the address of one of its
	// ports, and changes it when ports are added or removed.
	n.inside("link", "add", "br0", "address", "02:00:0a:00:02:02", "mtu", fmt.Sprint(mtu), "type", "bridge")
	n.inside("addr", "add", Host+"/24", "dev", "br0")
	n.inside("link", "set", "br0", "up")
	return n
}

// usable returns an error that says why this process cannot create networks and guests, or nil.
func usable() error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("the kernel lab makes network namespaces and must run as root")
	}
	for _, program := range []string{"ip", "busybox"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("the kernel lab is not set up (%w): run go run ./test/kernel/setup", err)
		}
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		return fmt.Errorf("the kernel lab needs taps: %w", err)
	}
	return nil
}

// Name returns the name of the namespace, as `ip netns` uses it.
func (n *Network) Name() string { return n.name }

// Command returns a command that runs a program of this machine inside the network.
func (n *Network) Command(name string, args ...string) *exec.Cmd {
	return exec.Command("ip", append([]string{"netns", "exec", n.name, name}, args...)...)
}

// Cut makes the bridge drop every frame from and to the guest at that address, as if its cable
// were pulled. Neither end sees its link go down.
func (n *Network) Cut(address int) {
	n.t.Helper()
	n.inside("link", "set", tap(address), "type", "bridge_slave", "state", "0")
}

// Heal undoes Cut.
func (n *Network) Heal(address int) {
	n.t.Helper()
	n.inside("link", "set", tap(address), "type", "bridge_slave", "state", "3")
}

func tap(address int) string { return fmt.Sprintf("tap%d", address) }

// attach creates the tap for a guest at that address and returns the address. If address is 0,
// attach takes the first free one from firstGuest on.
func (n *Network) attach(address int) int {
	n.t.Helper()
	n.mu.Lock()
	if address == 0 {
		for address = firstGuest; n.taken[address]; address++ {
		}
	}
	known := n.taken[address]
	n.taken[address] = true
	n.mu.Unlock()
	// A guest that boots again uses the tap that it had before.
	if !known {
		n.inside("tuntap", "add", tap(address), "mode", "tap")
		n.inside("link", "set", tap(address), "mtu", fmt.Sprint(n.mtu), "master", "br0", "up")
	}
	return address
}

func (n *Network) inside(args ...string) {
	n.t.Helper()
	n.ip(append([]string{"-n", n.name}, args...)...)
}

func (n *Network) ip(args ...string) {
	n.t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		n.t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// listens reports whether the network of a process has a TCP listener on the port. It reads the
// kernel's table, because a trial connection would appear in captures and in the daemon's
// counters.
func listens(process, port int) bool {
	for _, table := range []string{"tcp", "tcp6"} {
		text, _ := os.ReadFile(filepath.Join("/proc", fmt.Sprint(process), "net", table))
		for line := range strings.Lines(string(text)) {
			// The fields are slot, local address:port, remote address:port, and state. The state
			// 0A is LISTEN.
			fields := strings.Fields(line)
			if len(fields) > 3 && fields[3] == "0A" && strings.HasSuffix(fields[1], fmt.Sprintf(":%04X", port)) {
				return true
			}
		}
	}
	return false
}
