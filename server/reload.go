package server

import (
	"errors"
	"fmt"
	"sync"

	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/server/config"
)

// reloads lets one reload run at a time.
type reloads struct {
	mu      sync.Mutex
	running bool
	// next returns the configuration for a further reload after the running one; nil if none was
	// requested.
	next func() (*config.Config, error)
}

// Reload does what SIGHUP requests: it calls read for the new configuration, and serves its
// exports from then on. Running calls end with the export that they began with; its file system
// is closed after the last of them. Later calls get the new export with its options, or
// NFS4ERR_STALE if the export was removed. Changes of other keys wait for the next start. The
// groups of users, and the users of principals, are looked up anew. On an error, Reload writes a
// log line, and everything stays as it was.
//
// Reload may be called from any goroutine, and may block as long as directories do. While another
// goroutine reloads, Reload returns at once, and that goroutine reloads once more, because it may
// have read the configuration before the latest change.
func (s *Server) Reload(read func() (*config.Config, error)) {
	r := &s.reloads
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next = read
	if r.running {
		s.log.Info("the configuration will be read once more: a reload is still running")
		return
	}
	r.running = true
	for r.next != nil {
		read, r.next = r.next, nil
		r.mu.Unlock()
		s.reloadOnce(read)
		r.mu.Lock()
	}
	r.running = false
}

func (s *Server) reloadOnce(read func() (*config.Config, error)) {
	s.notifyReloading()
	var c change
	cfg, err := read()
	if err == nil {
		c, err = s.reload(cfg)
	}
	if err != nil {
		s.log.Error("not reloaded, and served as before", zap.Error(err))
		s.notifyReady(fmt.Sprintf("not reloaded, and served as before: %v", err))
		return
	}
	s.checkKeytab()
	s.registration.soon() // rpcbind may have restarted
	s.groups.Forget()     // the administrator may have changed groups
	s.gss.Refresh()       // and the users of principals
	s.log.Info("configuration read again", c.fields()...)
	if keys := cfg.Differing(s.cfg); len(keys) > 0 {
		s.log.Warn("changes that wait for a restart", zap.Strings("keys", keys))
	}
	s.notifyReady("serving")
}

func (s *Server) reload(cfg *config.Config) (change, error) {
	if len(cfg.Exports) == 0 {
		return change{}, cfg.Fault(errNoExports)
	}
	apart := *cfg
	apart.StateDir = s.cfg.StateDir // in use, whatever the file says now
	if err := keepApart(&apart); err != nil {
		return change{}, cfg.Fault(err)
	}
	return s.setExports(cfg.Exports)
}

var errNoExports = errors.New("nothing to serve: add --export DIR, or an [[export]] with a path to the configuration")
