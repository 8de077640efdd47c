package server

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/server/admin"
	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/server/logline"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// Version is the release that the daemon tells its administrator. The program sets it before Start.
var Version = "development"

// administration answers the administrator's requests: it is the admin.Daemon.
type administration struct {
	*Server
	started  time.Time
	draining atomic.Bool
	level    zap.AtomicLevel                // of the log
	last     lastLines                      // of the log
	read     func() (*config.Config, error) // reads the configuration again; nil if a program embeds the server
	// seed is the key of the hash in nameOfClient.
	seed maphash.Seed
}

// serveAdmin begins to answer at the administrator's socket, if there is to be one. The function stop ends this. If the
// socket cannot be made, the daemon serves without it.
func (s *Server) serveAdmin() (stop func(context.Context)) {
	none := func(context.Context) {}
	if !s.daemon || s.cfg.AdminPath() == "" {
		return none
	}
	path := s.cfg.AdminPath()
	l, err := admin.Listen(path)
	if err != nil {
		s.log.Warn(logline.NoAdminSocket,
			zap.String("admin_socket", path), zap.Error(err))
		return none
	}
	answering := admin.Serve(l, &s.admin)
	return func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		answering.Close(ctx)
	}
}

// nameOfClient returns the name by which the administrator names a client: a hash of its ID, because an ID of minor
// version 0 is a secret of the client, and lists of clients are sent around.
func (a *administration) nameOfClient(c *state.Client) string {
	return fmt.Sprintf("%012x", maphash.Comparable(a.seed, c.ID)>>16)
}
