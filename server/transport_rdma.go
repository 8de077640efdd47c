package server

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/nfsrdmad/nfsrdmad/internal/seats"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/providers"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/server/logline"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// rdmaCarrier carries RPC over RDMA. Its connections may use several providers.
type rdmaCarrier struct {
	*rdma.Server
	providers []providers.Provider
	versions  []int // of RPC-over-RDMA
}

func openRDMA(s *Server) (carrier, error) {
	opened, err := s.openProviders()
	if err != nil {
		return nil, err
	}
	server, err := rdma.NewServer(rdma.Config{
		RPC: s.rpc, Pool: s.pool, Credits: s.cfg.RNIC.Credits,
		InlineSend: int(s.cfg.RNIC.Inline), InlineReceive: int(s.cfg.RNIC.Inline),
		RemoteInvalidation: true, Version2: s.cfg.SpeaksRDMA(2), Chosen: s.rdmaVersion, Event: s.rdmaFault,
	})
	if err != nil {
		return nil, err
	}
	return &rdmaCarrier{server, opened, s.cfg.RDMAVersions}, nil
}

func (c *rdmaCarrier) ways(at netip.AddrPort) (all []way) {
	for _, p := range c.providers {
		for _, own := range p.Own(at) {
			all = append(all, way{by: p.Name(), at: own, device: p.Name() == providers.Verbs, dial: func(ctx context.Context) (rpc.Client, error) {
				k, err := rdma.Dial(ctx, p, own, rdma.DialConfig{})
				if err != nil {
					return nil, err
				}
				return rdmaClient{k}, nil
			}})
		}
	}
	return all
}

// rdmaClient adapts an rdma.Client, whose Close returns an error, to rpc.Client.
type rdmaClient struct{ *rdma.Client }

func (c rdmaClient) Close() { _ = c.Client.Close() }

func (c *rdmaCarrier) listen(addr netip.AddrPort) (*listener, error) {
	var all []rdmacm.Listener
	end := func() (err error) {
		for _, l := range all {
			err = errors.Join(err, l.Close())
		}
		return err
	}
	for _, p := range c.providers {
		l, err := p.Listen(addr)
		if err != nil {
			end()
			return nil, listenError("RDMA ("+p.Name()+")", addr, err)
		}
		all = append(all, l)
		addr = l.Addr() // if the port was 0, all providers use the port that the first one got
	}
	return &listener{addr: addr, close: end, serve: func() error {
		var running errgroup.Group
		for _, l := range all {
			running.Go(func() error { return c.Serve(l) })
		}
		return running.Wait()
	}}, nil
}

func (c *rdmaCarrier) traffic() traffic {
	st := c.Stats()
	t := traffic{
		open: st.Connections.Load(), accepted: uint64(st.Accepted.Load()), stalled: uint64(st.Timeouts()),
		bytes: []count{
			{"inline_received", float64(st.BytesInlineIn.Load())}, {"inline_sent", float64(st.BytesInlineOut.Load())},
			{"read_chunk", float64(st.BytesRead.Load())}, {"write_chunk", float64(st.BytesWritten.Load())},
			{"reply_chunk", float64(st.BytesReplyChunk.Load())},
		},
		malformed: []count{
			{"version", float64(st.ErrVers.Load())}, {"chunk", float64(st.ErrChunk.Load())},
			{"discarded", float64(st.Discarded.Load())}, {"failed_work", float64(st.FailedWork())},
			{"overrun", float64(st.Overruns())},
		},
	}
	for _, p := range c.providers {
		stats := p.Stats()
		for _, f := range stats.Faults {
			t.malformed = append(t.malformed, count{f.What, float64(f.N)})
		}
		t.memory += stats.Memory
		t.memoryLimit += stats.MemoryLimit
		t.devices = append(t.devices, stats.Devices...)
	}
	for _, version := range c.versions {
		t.versions = append(t.versions, st.Version(version))
	}
	for f := range rdma.Faults() {
		t.faults = append(t.faults, count{f.String(), float64(st.Count(f))})
	}
	return t
}

// providers returns the names of the RDMA providers to open. A server that another program embeds
// uses no RDMA devices, because its threads may have acted as a user before (see
// keepThreadsClean).
func (s *Server) providers() []string {
	switch name := s.cfg.RNIC.Provider; {
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
		CRC: s.cfg.RNIC.CRC, FPDU: s.cfg.RNIC.FPDU,
		SetupTimeout: time.Duration(s.cfg.Limits.SetupTimeout), StallTimeout: time.Duration(s.cfg.Limits.StallTimeout),
		Seats: seats.Of(s.census), Memory: int64(s.cfg.RNIC.DeviceMemory), Log: func(text string) { s.log.Info(text) },
		Event: func(e rdmacm.Event) {
			if e.Dialed {
				return // the daemon called itself, to see whether a server answers
			}
			s.connectionEvent("rdma", e.Kind, e.Peer, e.Err, e.Fault() && !errors.Is(e.Err, rdma.ErrServerClosed))
		},
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
			s.log.Warn(logline.DevicesUnused, zap.Error(err))
		}
	}
	return all, nil
}
