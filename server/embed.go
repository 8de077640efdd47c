package server

import (
	"context"
	"net"
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"
	nfs "github.com/willscott/go-nfs"
	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/billy"
)

// HandlerOptions configure NewHandler. The zero value serves the Handler as nfs.Serve does, and
// over RDMA as well.
type HandlerOptions struct {
	// Name is the path that clients mount and that Handler.Mount receives; "/" if empty. Clients
	// can also mount directories beneath it.
	Name string
	// RDMA lists the addresses to serve RDMA on; empty means port 20049 of the listener's own address.
	// An entry with None set means no RDMA.
	RDMA []config.Listen
	// RDMAVersions has the versions of RPC-over-RDMA to speak: 1, or 1 and 2. Nil means the default of
	// config.Config.
	RDMAVersions []int
	// StateDir is the directory for the key that seals handles. With it, clients can continue after a
	// restart of the process, if the Handler's own handles are still valid then. The Handler must not
	// serve this directory. If StateDir is empty, the key lives as long as the process.
	StateDir string
	// Clients are the networks served; empty means every address. The Handler checks no
	// permissions: a client that reaches the files may do anything.
	Clients []netip.Prefix
	// Secure serves only peers on privileged ports (below 1024), as the export option secure does.
	Secure bool
	// ReadOnly refuses every change.
	ReadOnly bool
	// FileSystem configures the go-billy file system behind the Handler. Its Path is set to Name.
	FileSystem billy.Options
	// Memory, RNIC, Limits and DrainTimeout are as in config.Config. Zero values mean the
	// defaults.
	Memory       config.Memory
	RNIC         config.RNIC
	Limits       config.Limits
	DrainTimeout config.Duration
	// Rpcbind registers NFS and MOUNT with rpcbind, as a daemon does.
	Rpcbind bool
	// Metrics, if not nil, is where the server registers its metrics (docs/metrics.md), such as
	// prometheus.DefaultRegisterer. They stay there until Serve has ended. Each server needs a Registerer of its own,
	// such as one of prometheus.WrapRegistererWith. If it is nil, the server does not measure how long calls take.
	Metrics prometheus.Registerer
	// Log receives the log lines that a daemon would write; nil means no log.
	Log *zap.Logger
}

// ServeHandler serves a go-nfs Handler as nfs.Serve(l, handler) does, over TCP on l, and also over
// RDMA on port 20049 of l's address. If l is closed, or a listener fails, it answers the calls in
// progress and returns. It also returns an error if it cannot start.
func ServeHandler(l net.Listener, handler nfs.Handler) error {
	s, err := NewHandler(l, handler, HandlerOptions{})
	if err != nil {
		return err
	}
	return s.Serve(context.Background())
}

// NewHandler makes a Server for a go-nfs Handler. When NewHandler returns, the Server listens for
// RDMA, and owns l. If NewHandler fails, l stays open, and belongs to the caller.
func NewHandler(l net.Listener, handler nfs.Handler, opt HandlerOptions) (*Server, error) {
	return NewHandlerContext(context.Background(), l, handler, opt)
}

// NewHandlerContext is NewHandler for a Handler whose method Mount may block: it receives ctx. When ctx
// ends before the Handler's file system is mounted, NewHandlerContext fails. The Server does not use
// ctx once NewHandlerContext has returned.
func NewHandlerContext(ctx context.Context, l net.Listener, handler nfs.Handler, opt HandlerOptions) (*Server, error) {
	embed := FileSystemOptions{
		// A Handler has no open files and no locks, so it cannot serve NFSv4.
		Name: opt.Name, Versions: []string{"3"}, RDMA: opt.RDMA, RDMAVersions: opt.RDMAVersions, StateDir: opt.StateDir, Clients: opt.Clients,
		Secure: opt.Secure, ReadOnly: opt.ReadOnly, Squash: export.NoSquash,
		Memory: opt.Memory, RNIC: opt.RNIC, Limits: opt.Limits, DrainTimeout: opt.DrainTimeout, Rpcbind: opt.Rpcbind, Metrics: opt.Metrics, Log: opt.Log,
	}
	return newEmbedded(l, embed, func(name string) (vfs.FileSystem, error) {
		opt.FileSystem.Path = name
		return billy.NewContext(ctx, handler, opt.FileSystem)
	})
}

// replaceExports makes exports with file systems of their own the server's exports.
func (s *Server) replaceExports(all ...*export.Export) error {
	_, err := s.exports.Replace(all)
	return err
}
