package server

import (
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/internal/seats"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/providers"
	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// providers returns the names of the RDMA providers to open. A server that another program embeds
// uses no RDMA devices, because its threads may have acted as a user before (see
// keepThreadsClean).
func (s *Server) providers() []string {
	switch name := string(s.cfg.RNIC.Provider); {
	case !s.daemon:
		return []string{providers.IWARP}
	case name != config.Auto:
		return []string{name}
	case providers.ServesDevices():
		return providers.Names()
	}
	return []string{providers.IWARP}
}

// keepThreadsClean makes the process keep threads that never take a user's credentials. It runs
// before any file system is opened. RDMA devices need such threads: the kernel refuses a verbs
// call by a thread whose credentials differ from those with which the device was opened.
func (s *Server) keepThreadsClean() {
	if slices.Contains(s.providers(), providers.Verbs) {
		local.KeepThreadsClean()
	}
}

// openProviders opens the configured RDMA providers. If the configured provider is "auto", the
// server also starts when the devices cannot be opened.
func (s *Server) openProviders() (all []providers.Provider, err error) {
	names := s.providers()
	cfg := providers.Config{
		CRC: string(s.cfg.RNIC.CRC), FPDU: s.cfg.RNIC.FPDU,
		SetupTimeout: time.Duration(s.cfg.Limits.SetupTimeout), StallTimeout: time.Duration(s.cfg.Limits.StallTimeout),
		Seats: seats.Of(s.census), Memory: int64(s.cfg.RNIC.DeviceMemory), Event: s.rdmaEvent, Log: func(text string) { s.log.Info(text) },
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
