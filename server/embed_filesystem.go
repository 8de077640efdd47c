package server

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// FileSystemOptions configure NewFileSystem. The zero value lets every address read and write over every version of NFS
// that the server has, over TCP and RDMA; user 0 of a client acts as the anonymous user.
type FileSystemOptions struct {
	// Name is the path that clients mount; "/" if empty. Clients can also mount directories beneath it.
	Name string
	// Versions are the versions of NFS to serve, out of config.NFSVersions; empty means all.
	Versions []string
	// RDMA lists the addresses to serve RDMA on; empty means port 20049 of the listener's own address.
	// An entry with None set means no RDMA.
	RDMA []config.Listen
	// RDMAVersions has the versions of RPC-over-RDMA to speak: 1, or 1 and 2. Nil means the default of
	// config.Config.
	RDMAVersions []int
	// StateDir is the directory for the key that seals handles, and for the records of clients that hold files open or
	// locked. With it, clients continue after a restart of the process, if the file system's handles (vfs.Scoped) are
	// still valid then. If it is empty, all of that ends with the process.
	StateDir string
	// Clients are the networks served; empty means every address.
	Clients []netip.Prefix
	// Secure serves only peers on privileged ports (below 1024), as the export option secure does.
	Secure bool
	// ReadOnly refuses every change.
	ReadOnly bool
	// Squash selects the callers that act as the anonymous user, with the numbers AnonUID and AnonGID; 0 means
	// export.Nobody.
	Squash           export.Squash
	AnonUID, AnonGID uint32
	// Memory, RNIC, Limits and DrainTimeout are as in config.Config. Zero values mean the
	// defaults.
	Memory       config.Memory
	RNIC         config.RNIC
	Limits       config.Limits
	DrainTimeout config.Duration
	// Rpcbind registers the programs with rpcbind, as a daemon does.
	Rpcbind bool
	// Metrics, if not nil, is where the server registers its metrics (docs/metrics.md), such as
	// prometheus.DefaultRegisterer. They stay there until Serve has ended. Each server needs a Registerer of its own,
	// such as one of prometheus.WrapRegistererWith. If it is nil, the server does not measure how long calls take.
	Metrics prometheus.Registerer
	// Log receives the log lines that a daemon would write; nil means no log. SlogLogger makes one that writes to a
	// slog.Handler.
	Log *zap.Logger
}

// NewFileSystem makes a Server for one file system of the calling program. The Server listens for RDMA when
// NewFileSystem returns, and owns l and fs; it answers calls when Serve runs. When Serve has ended, fs is closed. If
// NewFileSystem fails, l stays open and belongs to the caller, and fs is closed.
//
// What fs implements beyond vfs.FileSystem decides what clients can do: see the optional interfaces of package vfs.
// Package vfs/vfstest tests whether fs keeps the contract.
func NewFileSystem(l net.Listener, fs vfs.FileSystem, opt FileSystemOptions) (*Server, error) {
	taken := false
	s, err := newEmbedded(l, opt, func(string) (vfs.FileSystem, error) {
		taken = true
		return fs, nil
	})
	if err != nil && !taken {
		err = errors.Join(err, fs.Close())
	}
	return s, err
}

// newEmbedded makes a Server of another program. It calls the function open with the export's name when the options
// are right, and owns the file system from then on.
func newEmbedded(l net.Listener, opt FileSystemOptions, open func(name string) (vfs.FileSystem, error)) (_ *Server, err error) {
	cfg, err := opt.config(l)
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, log: cmp.Or(opt.Log, zap.NewNop()), measures: opt.Metrics != nil}
	served := false
	one := &export.Export{
		Name: cmp.Or(opt.Name, "/"), Clients: opt.Clients,
		Options: export.Options{
			ReadOnly: opt.ReadOnly, Secure: opt.Secure,
			Squash: opt.Squash, AnonUID: cmp.Or(opt.AnonUID, export.Nobody), AnonGID: cmp.Or(opt.AnonGID, export.Nobody),
		},
	}
	defer func() {
		if err == nil {
			return
		}
		s.close() // closes the file systems of the exports
		if one.FS != nil && !served {
			err = errors.Join(err, one.FS.Close())
		}
	}()
	var key [export.KeySize]byte
	if opt.StateDir == "" {
		rand.Read(key[:])
	} else if s.state, err = openState(opt.StateDir); err != nil {
		return nil, err
	} else if key, err = s.state.handleKey(); err != nil {
		return nil, err
	}
	if one.FS, err = open(one.Name); err != nil {
		return nil, err
	}
	err = s.start(key, func() error {
		err := s.replaceExports(one)
		served = err == nil
		return err
	})
	if err != nil {
		return nil, err
	}
	if err = s.registerMetrics(opt.Metrics); err != nil {
		return nil, err
	}
	tcp := s.running("tcp")
	tcp.listeners = append(tcp.listeners, tcp.carrier.(*tcpCarrier).over(l))
	return s, nil
}

// config returns the configuration of a daemon with these options that serves RDMA beside l.
func (opt *FileSystemOptions) config(l net.Listener) (*config.Config, error) {
	local, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return nil, fmt.Errorf("cannot serve NFS on %s %s: it takes a TCP listener", l.Addr().Network(), l.Addr())
	}
	if name := opt.Name; name != "" && (name[0] != '/' || path.Clean(name) != name) {
		return nil, fmt.Errorf("export name %q is not a clean absolute path: write %q", name, path.Clean("/"+name))
	}
	cfg := &config.Config{
		RDMA: opt.RDMA, RDMAVersions: slices.Clone(opt.RDMAVersions), TCP: []config.Listen{{None: true}}, StateDir: opt.StateDir, Rpcbind: &opt.Rpcbind,
		Memory: opt.Memory, RNIC: opt.RNIC, Limits: opt.Limits, DrainTimeout: opt.DrainTimeout,
		NFS: config.NFS{Versions: opt.Versions},
	}
	if len(cfg.RDMA) == 0 {
		addr := local.AddrPort().Addr().Unmap()
		cfg.RDMA = []config.Listen{{Addr: netip.AddrPortFrom(addr, config.DefaultRDMAPort)}}
	}
	if err := cfg.Check(); err != nil {
		if wrong, ok := errors.AsType[*config.Error](err); ok {
			err = wrong.Err // no configuration file has a place for it
		}
		return nil, err
	}
	if remedy, _ := cfg.CheckMemory(); remedy != "" && opt.Memory.Ceiling != 0 {
		return nil, fmt.Errorf("memory ceiling %v: %s", opt.Memory.Ceiling, remedy)
	}
	return cfg, nil
}
