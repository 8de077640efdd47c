package server

import (
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/providers"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// auto is the software RNIC, and beside it RDMA devices if the machine has some.
const auto = "auto"

// softwareSettings are the keys of the software RNIC.
var softwareSettings = []setting{
	choice("rnic.crc", func(c *Config) *Choice { return &c.RNIC.CRC }, []string{"peer", "on", "off"}, "",
		"whether the software RNIC asks for a CRC32C on each frame (RFC 5044 §4.4): `on`, `off`, or `peer` for leaving it to the peer. When either side asks, both do it. Linux's siw does not ask"),
	{key: "rnic.fpdu", usual: quoted("auto"), check: checkFPDU,
		meaning: "frames sent: `auto` makes them as large as the standard allows, the cheapest for peers in software, or, with CRCs, as fits a TCP segment; `mss` fits each into a TCP segment, as adapters in hardware may insist; or a number of bytes from 128 to 64768"},
}

// providers returns the names of the providers to open. A server within a program serves no
// devices: the program's threads are its own, and nothing keeps them clean (see
// keepThreadsClean).
func (s *Server) providers() []string {
	switch name := string(s.cfg.RNIC.Provider); {
	case !s.daemon:
		return []string{providers.IWARP}
	case name != auto:
		return []string{name}
	case providers.ServesDevices():
		return providers.Names()
	}
	return []string{providers.IWARP}
}

// keepThreadsClean runs before any file system is opened. A thread that has once acted as a client
// can no longer call verbs (the kernel compares its credentials with those of the descriptor's
// opener), so a server with devices must keep some threads clean from the start.
func (s *Server) keepThreadsClean() {
	if slices.Contains(s.providers(), providers.Verbs) {
		local.KeepThreadsClean()
	}
}

// openProviders opens what carries RDMA, as configured. Under auto the server runs without devices
// if they cannot be opened.
func (s *Server) openProviders() (all []providers.Provider, err error) {
	names := s.providers()
	cfg := providers.Config{
		CRC: string(s.cfg.RNIC.CRC), FPDU: s.cfg.RNIC.FPDU,
		SetupTimeout: time.Duration(s.cfg.Limits.SetupTimeout), StallTimeout: time.Duration(s.cfg.Limits.StallTimeout),
		Census: s.census, Memory: int64(s.cfg.RNIC.DeviceMemory), Event: s.rdmaEvent, Log: func(text string) { s.log.Info(text) },
		BesideIWARP: slices.Contains(names, providers.IWARP),
		Arena: func() (arena []byte) {
			_ = s.pool.OnArena(func(a []byte) error {
				arena = a
				return nil
			})
			return arena
		},
	}
	for _, name := range names {
		p, err := providers.Open(name, cfg)
		switch {
		case err == nil:
			all = append(all, p)
		case len(all) == 0:
			return nil, err
		default:
			s.log.Warn("RDMA devices are not served, the software RNIC is", zap.Error(err))
		}
	}
	return all, nil
}
