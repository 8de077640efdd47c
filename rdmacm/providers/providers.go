// Package providers opens the implementations of rdmacm.Provider by their names: "iwarp", a
// software RNIC over TCP, and "verbs", the RDMA devices of this machine. The server and the
// tools open providers only through this package.
//
// The provider "verbs" needs a program that was built with the tag verbs, and two libraries at
// run time.
package providers

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp"
)

// Config configures a provider. A provider ignores the fields that do not concern it. The zero
// Config is valid.
type Config struct {
	// CRC and FPDU configure the software RNIC: see iwarp.ParseCRCMode and
	// iwarp.ParseFPDUSize. Empty means the default.
	CRC, FPDU string
	// Seats decides which accepted connections may stay, and gives each of them a seat.
	Seats rdmacm.Seats
	// SetupTimeout is the time limit of the set-up of a connection. With the provider "verbs"
	// it does not limit Dial. StallTimeout is the time after which a connection ends if its
	// peer lets none of the posted work complete. 0 means the provider's default.
	SetupTimeout, StallTimeout time.Duration
	// Event, unless nil, is called for each event of a connection. It must not block.
	Event func(rdmacm.Event)
	// Arena returns the payload memory, which the provider "verbs" registers with its devices.
	// If Arena is nil, there is no such memory.
	Arena func() []byte
	// BesideIWARP is true if the software RNIC listens at the same port as the provider "verbs".
	// In that case the provider "verbs" does not listen on siw, the kernel's software iWARP,
	// because siw would need the same TCP port.
	BesideIWARP bool
	// Memory is the most memory that the messages of all connections over devices may take, in
	// bytes. The connections of one client address may take at most half of what other addresses
	// leave. 0 means that there is no limit.
	Memory int64
	// Log, unless nil, is called with messages about devices and their addresses.
	Log func(text string)
}

// A Provider is an rdmacm.Provider that Open has opened, with further methods for the server
// and the tools.
type Provider interface {
	rdmacm.Provider
	// Own returns the addresses at which this machine can reach a Listener of its own. The
	// parameter at is the Listener's address. Own returns none while the machine has no such
	// address, or no device that can carry the connection.
	Own(at netip.AddrPort) []netip.AddrPort
	// Stats returns the provider's present counters.
	Stats() rdmacm.Stats
}

// Names of the providers.
const (
	IWARP = "iwarp"
	Verbs = "verbs"
)

// registry lists all providers. Commands that connect over RDMA use the first one by default.
var registry = []struct {
	name string
	// ready returns an error that says why the provider cannot be opened here, or nil.
	ready func() error
	open  func(*Config) (Provider, error)
}{
	{IWARP, func() error { return nil }, openIWARP},
	{Verbs, verbsReady, openVerbs},
}

// Names returns the names of all providers. The first provider needs no RDMA device.
func Names() []string {
	var all []string
	for _, e := range registry {
		all = append(all, e.name)
	}
	return all
}

// Open opens a provider by its name.
func Open(name string, cfg Config) (Provider, error) {
	for _, e := range registry {
		if e.name == name {
			return e.open(&cfg)
		}
	}
	return nil, unknown(name)
}

// Ready returns nil if this program can open the provider on this machine. Otherwise the error
// names the reason and the remedy.
func Ready(name string) error {
	for _, e := range registry {
		if e.name == name {
			return e.ready()
		}
	}
	return unknown(name)
}

func unknown(name string) error {
	return fmt.Errorf("RDMA provider %q is none of %s", name, strings.Join(Names(), ", "))
}

func openIWARP(cfg *Config) (Provider, error) {
	c := iwarp.Config{SetupTimeout: cfg.SetupTimeout, StallTimeout: cfg.StallTimeout, Seats: cfg.Seats, Event: cfg.Event}
	var err error
	if cfg.CRC != "" {
		if c.CRC, err = iwarp.ParseCRCMode(cfg.CRC); err != nil {
			return nil, err
		}
	}
	if cfg.FPDU != "" {
		if c.MaxFPDU, err = iwarp.ParseFPDUSize(cfg.FPDU); err != nil {
			return nil, err
		}
	}
	return iwarp.New(c)
}

// ServesDevices reports whether this program was built for RDMA devices and the machine has a
// device other than siw, which uses the software RNIC's protocol and TCP port. ServesDevices
// recognizes siw by its usual name, such as siw0. Once a device is open, the provider
// recognizes siw by its vendor number.
func ServesDevices() bool {
	all, _ := filepath.Glob("/sys/class/infiniband/*")
	return verbsBuilt && slices.ContainsFunc(all, func(d string) bool { return !strings.HasPrefix(filepath.Base(d), "siw") })
}
