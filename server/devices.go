package server

import (
	"path/filepath"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// wantsDevices says whether RDMA devices are to be opened. It is asked before any file
// system is: a thread that acted as a client once can call no verbs any more (the kernel
// compares its credential with that of the descriptor's opener), so the threads of a
// server with devices are kept clean from the start.
func (c *Config) wantsDevices() bool {
	switch c.RNIC.Provider {
	case "verbs":
		return true
	case "auto":
		return devicesBuilt && anyDevice()
	}
	return false
}

// anyDevice says whether the machine has an RDMA device other than siw, which speaks the
// software RNIC's protocol on the same TCP port. A device is called siw0 and the like by
// those who make it, by convention; when it is opened, its vendor's number tells.
func anyDevice() bool {
	all, _ := filepath.Glob("/sys/class/infiniband/*")
	return slices.ContainsFunc(all, func(d string) bool { return !strings.HasPrefix(filepath.Base(d), "siw") })
}

// keepThreadsClean goes before all file systems.
func (s *Server) keepThreadsClean() {
	if s.devices = s.cfg.wantsDevices(); s.devices {
		local.KeepThreadsClean()
	}
}

// openDevices opens what carries RDMA.
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
