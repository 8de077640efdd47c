//go:build verbs

package server

import (
	"fmt"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/device"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/shim"
)

// devicesBuilt: this program can reach RDMA devices.
const devicesBuilt = true

type verbsDevice struct{ *verbs.Provider }

func (verbsDevice) traffic() traffic { return traffic{} }

// openVerbs opens librdmacm and libibverbs.
func openVerbs(s *Server) (_ rdmaDevice, err error) {
	library, err := shim.Load()
	if err != nil {
		return nil, fmt.Errorf("RDMA devices need their libraries: %w", err)
	}
	cfg := verbs.Config{
		Library: library, SetupTimeout: time.Duration(s.cfg.Limits.SetupTimeout), Census: s.census,
		StallTimeout: time.Duration(s.cfg.Limits.StallTimeout),
		Log:          func(text string) { s.log.Info(text) },
		Arena: func() (arena []byte) {
			_ = s.pool.OnArena(func(a []byte) error {
				arena = a
				return nil
			})
			return arena
		},
	}
	if s.cfg.RNIC.Provider == "auto" {
		cfg.Skip = func(d *device.Attributes) bool { return d.SIW }
	}
	p, err := verbs.New(cfg)
	if err != nil {
		return nil, err
	}
	return verbsDevice{p}, nil
}
