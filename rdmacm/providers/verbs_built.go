//go:build verbs

package providers

import (
	"fmt"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/device"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/shim"
)

// verbsBuilt is true if this program was built with the tag verbs, so that it can use RDMA devices.
const verbsBuilt = true

func verbsReady() error {
	_, err := loadLibraries()
	return err
}

// loadLibraries opens librdmacm and libibverbs.
func loadLibraries() (device.Library, error) {
	library, err := shim.Load()
	if err != nil {
		return nil, fmt.Errorf("RDMA devices need their libraries: %w", err)
	}
	return library, nil
}

func openVerbs(cfg *Config) (Provider, error) {
	library, err := loadLibraries()
	if err != nil {
		return nil, err
	}
	c := verbs.Config{
		Library: library, SetupTimeout: cfg.SetupTimeout, StallTimeout: cfg.StallTimeout, Seats: cfg.Seats,
		Arena: cfg.Arena, Log: cfg.Log, Event: cfg.Event, Memory: cfg.Memory,
	}
	if cfg.BesideIWARP {
		c.Skip = func(d *device.Attributes) bool { return d.SIW }
	}
	return verbs.New(c)
}
