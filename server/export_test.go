package server

import (
	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/internal/census"
	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
)

// NewOver is like New, but serves file systems that the test provides.
func NewOver(cfg *config.Config, all ...*export.Export) (*Server, error) {
	off := false
	cfg.Rpcbind = &off
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, log: zap.NewNop()}
	if err := s.start([export.KeySize]byte{1}, func() error { return s.replaceExports(all...) }); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// LogTo makes s log to l. It is called before Serve.
func (s *Server) LogTo(l *zap.Logger) {
	s.log, s.lines.log, s.names.log, s.connectionLines.log = l, l, l, l
}

// Offer replaces the server's exports by exports of file systems that the test provides.
func (s *Server) Offer(exports ...*export.Export) error { return s.replaceExports(exports...) }

// Memory returns the counters of the payload memory pool.
func (s *Server) Memory() mem.Stats { return s.pool.Stats() }

// Calls returns the counters of package rpc.
func (s *Server) Calls() rpc.Stats { return s.rpc.Stats() }

// Connections returns the number of connections over each transport.
func (s *Server) Connections() (tcp, rdma int64) {
	return s.running("tcp").traffic().open, s.running("rdma").traffic().open
}

// Seats returns the counters of the census.
func (s *Server) Seats() census.Stats { return s.census.Stats() }

// transportOf returns the registry's entry with this name, or nil.
func transportOf(name string) *transport {
	for i := range transports {
		if transports[i].name == name {
			return &transports[i]
		}
	}
	return nil
}

// ReloadKeys reloads, and returns the keys with new values and those that wait for a restart.
func (s *Server) ReloadKeys(read func() (*config.Config, error)) (applied, waiting []string, err error) {
	told := make(chan reloaded, 1)
	s.reloadTelling(read, told)
	r := <-told
	return r.applied, r.waiting, r.err
}

// ReloadKept is ReloadKeys, but returns the keys that kept their former values in the place of those that wait.
func (s *Server) ReloadKept(read func() (*config.Config, error)) (applied, kept []string, err error) {
	told := make(chan reloaded, 1)
	s.reloadTelling(read, told)
	r := <-told
	return r.applied, r.kept, r.err
}

// LogLevel returns the level of the log that is in force, and OrderLevel sets it as the administrator does.
func (s *Server) LogLevel() string { return s.admin.level.String() }

func (s *Server) OrderLevel(level string) error {
	_, err := s.admin.SetLevel(level)
	return err
}

// LastLines returns the last lines of the log.
func (s *Server) LastLines() []string { return s.admin.last.all() }

// UserOf returns the user of a principal.
func (s *Server) UserOf(principal string) (uid uint32, ok bool) {
	uid, _, _, ok, err := s.identify(principal)
	return uid, ok && err == nil
}
