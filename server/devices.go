package server

import (
	"path/filepath"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// wantsDevices reports whether to open RDMA devices. It is called before any file system is
// opened. A thread that has once acted as a client can no longer call verbs (the kernel compares
// its credentials with those of the descriptor's opener), so a server with devices must keep some
// threads clean from the start.
func (c *Config) wantsDevices() bool {
	switch c.RNIC.Provider {
	case "verbs":
		return true
	case "auto":
		return devicesBuilt && anyDevice()
	}
	return false
}

// anyDevice reports whether the machine has an RDMA device other than siw, which uses the
// software RNIC's protocol and TCP port. By convention a siw device has a name such as siw0; once
// it is open, its vendor number tells.
func anyDevice() bool {
	all, _ := filepath.Glob("/sys/class/infiniband/*")
	return slices.ContainsFunc(all, func(d string) bool { return !strings.HasPrefix(filepath.Base(d), "siw") })
}

// keepThreadsClean runs before any file system is opened.
func (s *Server) keepThreadsClean() {
	if s.devices = s.cfg.wantsDevices(); s.devices {
		local.KeepThreadsClean()
	}
}

// openDevices opens the RDMA devices and the software RNIC, as configured.
func (s *Server) openDevices() ([]rdmaDevice, error) {
	var all []rdmaDevice
	if s.cfg.RNIC.Provider != "verbs" {
		d, err := softwareRNIC.open(s)
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	if !s.devices {
		return all, nil
	}
	d, err := openVerbs(s)
	switch {
	case err == nil:
		return append(all, d), nil
	case s.cfg.RNIC.Provider == "verbs":
		return nil, err
	}
	s.log.Warn("RDMA devices are not served, the software RNIC is", zap.Error(err))
	return all, nil
}
