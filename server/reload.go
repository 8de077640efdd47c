package server

import (
	"errors"
	"fmt"
	"sync"

	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/server/exports"
)

// reloads lets one reload run at a time.
type reloads struct {
	mu      sync.Mutex
	running bool
	// next returns the configuration for a further reload after the running one; nil if none was
	// requested.
	next func() (*config.Config, error)
}

// Reload does what SIGHUP requests: it calls the function read for the new configuration, and
// serves the exports of this configuration from then on. Running calls end with the export that
// they began with; its file system is closed after the last of them. Later calls get the new
// export with its options, or the error NFS3ERR_STALE or NFS4ERR_STALE if the export was removed.
// Changes of other configuration keys wait for the next start. The groups of users, and the users
// of principals, are looked up anew. On an error, Reload writes a log line, and everything stays
// as it was.
//
// Reload may be called from any goroutine, and may block as long as the opening of directories
// blocks. While another goroutine reloads, Reload returns at once, and that goroutine reloads
// once more, because it may have read the configuration before the latest change.
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
	var c exports.Change
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
	s.gss.Refresh()       // the administrator may have changed the users of principals
	s.log.Info("configuration read again", c.Fields()...)
	if keys := cfg.Differing(s.cfg); len(keys) > 0 {
		s.log.Warn("changes that wait for a restart", zap.Strings("keys", keys))
	}
	s.notifyReady("serving")
}

// reload replaces the server's exports by those of cfg: it opens new exports, replaces those whose
// directory or options have changed, and removes those that cfg does not have. On an error nothing
// changes. It opens directories, which may block.
func (s *Server) reload(cfg *config.Config) (exports.Change, error) {
	switch {
	case s.filesystems == nil:
		return exports.Change{}, errors.New("the exports of this server are its program's own")
	case len(cfg.Exports) == 0:
		return exports.Change{}, cfg.At(errNoExports)
	}
	apart := *cfg
	apart.StateDir = s.cfg.StateDir // a changed state directory takes effect only at the next start
	if err := exports.KeepApart(&apart); err != nil {
		return exports.Change{}, err
	}
	o := exports.Opening{Filesystems: s.filesystems, Log: s.log, Now: s.exports.Table.All()}
	opened, err := o.Open(cfg.Exports)
	if err != nil {
		return exports.Change{}, err
	}
	c, err := s.exports.Replace(opened)
	if err == nil && !single(opened) {
		s.pool.LimitGroups(int64(s.cfg.Memory.Ceiling) / 2)
	}
	return c, err
}

var errNoExports = errors.New("nothing to serve: add --export DIR, or an [[export]] with a path to the configuration")
