package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
	"github.com/nfsrdmad/nfsrdmad/transport/tcp"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/mount3"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

const (
	// housekeeping is how often memory that is not needed is given back.
	housekeeping = 5 * time.Second
	// farewell is how long peers have, once every call is answered, to take
	// the answers and to end their connections. A peer that is gone does not
	// keep the process for longer.
	farewell = 5 * time.Second
)

// A Server is a daemon that is set up and listens. Its Serve runs it.
type Server struct {
	cfg     *Config
	log     *zap.Logger
	state   *stateDir
	exports []*export.Export
	table   *export.Table
	pool    *mem.Pool
	rpc     *rpc.Server
	tcp     *tcp.Server
	rdma    *rdma.Server
	device  *iwarp.Provider

	tcpListeners  []net.Listener
	rdmaListeners []rdmacm.Listener
	durations     *durations // nil without metrics
	// daemon: this process is the server, and tells systemd of itself.
	daemon bool
}

// New opens what cfg names and listens. An error says what is wrong and what to
// do about it; nothing is left open then.
func New(cfg *Config) (_ *Server, err error) {
	if len(cfg.Exports) == 0 {
		return nil, cfg.fault(errors.New("nothing to serve: add --export DIR, or an [[export]] with a path to the configuration"))
	}
	if err := cfg.check(); err != nil {
		return nil, cfg.fault(err)
	}
	s := &Server{cfg: cfg, log: newLog(cfg.LogLevel, cfg.LogFormat), daemon: true}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.state, err = openState(cfg.StateDir); err != nil {
		return nil, err
	}
	key, err := s.state.handleKey()
	if err != nil {
		return nil, err
	}
	if s.exports, err = openExports(cfg.Exports, cfg.StateDir); err != nil {
		return nil, err
	}
	return s, s.start(key)
}

// start puts the rooms together, from the bottom up, over exports that are open.
func (s *Server) start(key [export.KeySize]byte) (err error) {
	s.table = export.NewTable(key)
	if err = s.table.Replace(s.exports); err != nil {
		return err
	}
	if s.pool, err = mem.NewPool(s.memory()); err != nil {
		return err
	}
	calls := rpc.Config{Pool: s.pool}
	if s.cfg.Metrics != "" {
		s.durations = new(durations)
		calls.Observe = s.durations.observe
	}
	s.rpc = rpc.NewServer(calls)
	s.rpc.Register(nfs3.New(s.table))
	s.rpc.Register(mount3.New(s.table))
	if err = s.startTCP(); err != nil {
		return err
	}
	return s.startRDMA()
}

// memory is how payload memory is shared out. Half of it is kept from the calls of
// any one file system, for those of others, where there may be others.
func (s *Server) memory() mem.Config {
	c := mem.Config{Ceiling: int64(s.cfg.Memory.Ceiling), Share: int64(s.cfg.Memory.Connection)}
	if len(s.exports) == 1 {
		c.Group = c.Ceiling
	}
	return c
}

func (s *Server) startTCP() (err error) {
	s.tcp = tcp.NewServer(tcp.Config{
		RPC: s.rpc, Pool: s.pool,
		MaxConns:    s.cfg.Limits.Connections,
		MaxInFlight: s.cfg.Limits.CallsInFlight,
		Idle:        time.Duration(s.cfg.Limits.IdleTimeout),
		Stall:       time.Duration(s.cfg.Limits.StallTimeout),
	})
	s.tcpListeners, err = listenTCP(s.cfg.TCP)
	return err
}

func (s *Server) startRDMA() (err error) {
	stall := time.Duration(s.cfg.Limits.StallTimeout)
	device := iwarp.Config{StallTimeout: stall}
	if device.CRC, err = iwarp.ParseCRCMode(string(s.cfg.RNIC.CRC)); err != nil {
		return err
	}
	if device.MaxFPDU, err = iwarp.ParseFPDUSize(s.cfg.RNIC.FPDU); err != nil {
		return err
	}
	if s.device, err = iwarp.New(device); err != nil {
		return err
	}
	if s.rdma, err = rdma.NewServer(rdma.Config{
		RPC: s.rpc, Pool: s.pool, Credits: s.cfg.RNIC.Credits, Deadline: stall,
		InlineSend: int(s.cfg.RNIC.Inline), InlineReceive: int(s.cfg.RNIC.Inline),
		RemoteInvalidation: true,
	}); err != nil {
		return err
	}
	s.rdmaListeners, err = listenRDMA(s.device, s.cfg.RDMA)
	return err
}

// RDMAAddrs and TCPAddrs are what the server listens on.
func (s *Server) RDMAAddrs() []netip.AddrPort {
	var all []netip.AddrPort
	for _, l := range s.rdmaListeners {
		all = append(all, l.Addr())
	}
	return all
}

// TCPAddrs: see RDMAAddrs.
func (s *Server) TCPAddrs() []netip.AddrPort {
	var all []netip.AddrPort
	for _, l := range s.tcpListeners {
		all = append(all, l.Addr().(*net.TCPAddr).AddrPort())
	}
	return all
}

// Serve runs until ctx ends or a listener is closed, and then drains: calls in
// progress are answered, and what was promised is safe. A Server serves once.
func (s *Server) Serve(ctx context.Context) error {
	defer s.close()
	var running sync.WaitGroup
	over := make(chan error, len(s.tcpListeners)+len(s.rdmaListeners))
	serve := func(what string, f func() error) {
		running.Go(func() {
			err := f()
			if errors.Is(err, net.ErrClosed) {
				err = nil
			}
			if err != nil {
				err = fmt.Errorf("%s listener ended: %w", what, err)
			}
			over <- err
		})
	}
	for _, l := range s.tcpListeners {
		serve("TCP", func() error { return s.tcp.Serve(l) })
	}
	for _, l := range s.rdmaListeners {
		serve("RDMA", func() error { return s.rdma.Serve(l) })
	}
	ended := make(chan struct{})
	running.Go(func() { s.keepHouse(ended) })
	unregister := s.register(ctx)
	stopMetrics := s.serveMetrics()
	s.announce()

	var err error
	select {
	case <-ctx.Done():
	case err = <-over:
	}
	if s.daemon {
		notifyStopping()
	}
	s.log.Info("draining", zap.Duration("at_most", time.Duration(s.cfg.DrainTimeout)))
	drain, cancel := context.WithTimeout(context.Background(), time.Duration(s.cfg.DrainTimeout))
	defer cancel()
	unregister(drain)
	s.drain(drain)
	stopMetrics()
	close(ended)
	running.Wait()
	return err
}

// drain takes no more connections and no more calls, answers what is in progress
// and lets the answers leave. Whoever did not get his answer in time sends his
// call again, to whoever serves next: that is no failure of this process.
func (s *Server) drain(ctx context.Context) {
	for _, l := range s.tcpListeners {
		l.Close()
	}
	for _, l := range s.rdmaListeners {
		l.Close()
	}
	if err := s.rpc.Drain(ctx); err != nil {
		s.log.Warn("calls are still in progress: their clients will repeat them", zap.Int64("calls", s.rpc.Stats().InProgress), zap.Error(err))
	}
	last, cancel := context.WithTimeout(ctx, farewell)
	defer cancel()
	var parting sync.WaitGroup
	for _, shutdown := range []func(context.Context) error{s.tcp.Shutdown, s.rdma.Shutdown} {
		parting.Go(func() {
			if err := shutdown(last); err != nil {
				s.log.Info("connections were cut whose peers did not part", zap.Error(err))
			}
		})
	}
	parting.Wait()
}

func (s *Server) announce() {
	names := make([]string, 0, len(s.exports))
	for _, e := range s.table.All() {
		names = append(names, e.Name)
	}
	s.log.Info("serving",
		zap.Strings("exports", names),
		zap.String("rdma", join(s.RDMAAddrs())), zap.String("tcp", join(s.TCPAddrs())),
		zap.Int64("memory_ceiling", int64(s.cfg.Memory.Ceiling)))
	if s.daemon && !local.CanSwitch() {
		id := local.Identity()
		s.log.Warn("everybody acts as this process: it cannot act as anybody else", zap.Uint32("uid", id.UID), zap.Uint32("gid", id.GID))
	}
	if s.daemon {
		notifyReady()
	}
}

// keepHouse gives memory back that has not been needed for a while.
func (s *Server) keepHouse(ended <-chan struct{}) {
	tick := time.NewTicker(housekeeping)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return
		case <-tick.C:
			s.pool.Housekeep()
		}
	}
}

// close ends what is still there, in the order of dependence.
func (s *Server) close() {
	for _, l := range s.tcpListeners {
		l.Close()
	}
	for _, l := range s.rdmaListeners {
		l.Close()
	}
	if s.tcp != nil {
		s.tcp.Close()
	}
	if s.rdma != nil {
		s.rdma.Close()
	}
	if s.rpc != nil {
		s.rpc.Close()
	}
	if err := closeExports(s.exports); err != nil {
		s.log.Error("closing exports", zap.Error(err))
	}
	if s.pool != nil {
		s.pool.Close()
	}
	if s.state != nil {
		s.state.close()
	}
	_ = s.log.Sync()
}
