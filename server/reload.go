package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/server/exports"
	"github.com/nfsrdmad/nfsrdmad/server/logline"
)

// reloads lets one reload run at a time.
type reloads struct {
	mu      sync.Mutex
	running bool
	// next returns the configuration for a further reload after the running one; nil if none was
	// requested.
	next func() (*config.Config, error)
	// abandon ends the waiting of the running reload for directories.
	abandon context.CancelFunc
	// applying is held while keys are applied, at the begin of Serve and by a reload.
	applying sync.Mutex
	// told are to get the result of the last of these reloads.
	told []chan<- reloaded
}

// reloaded is the result of a reload: what has changed of the exports, the keys with new values that hold now, those that
// kept their former values because the new ones cannot be used, and the keys whose changes wait for a restart.
type reloaded struct {
	change                 exports.Change
	applied, kept, waiting []string
	err                    error
}

// Reload does what SIGHUP requests: it calls the function read for the new configuration, and
// serves the exports of this configuration from then on. Running calls end with the export that
// they began with; its file system is closed after the last of them. Later calls get the new
// export with its options, or the error NFS3ERR_STALE or NFS4ERR_STALE if the export was removed.
// If the directory of an export cannot be opened, the export is left out, or its present directory
// is still served with the new options (exports.Offer). Changes of the keys that have
// config.Described.Reloads hold at once, unless the daemon cannot listen at an address; those of other keys
// wait for the next start. The groups of users, and the users of principals, are looked up anew. If the
// configuration is wrong, Reload writes a log line, and everything stays as it was.
//
// Reload may be called from any goroutine, and may block for some seconds while it waits for
// directories. While another goroutine reloads, Reload returns at once, and that goroutine does not
// wait any longer, and reloads once more, because it may have read the configuration before the
// latest change.
func (s *Server) Reload(read func() (*config.Config, error)) { s.reloadTelling(read, nil) }

// reloadTelling is Reload. If told is not nil, it gets the result; if further reloads follow, that of the last one. It has
// room for that.
func (s *Server) reloadTelling(read func() (*config.Config, error), told chan<- reloaded) {
	r := &s.reloads
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next = read
	if told != nil {
		r.told = append(r.told, told)
	}
	if r.running {
		s.log.Info(logline.ReloadFollows)
		r.abandon()
		return
	}
	r.running = true
	var result reloaded
	for r.next != nil {
		read, r.next = r.next, nil
		ctx, abandon := context.WithCancel(context.Background())
		r.abandon = abandon
		r.mu.Unlock()
		result = s.reloadOnce(ctx, read)
		abandon()
		r.mu.Lock()
	}
	r.running = false
	for _, told := range r.told {
		told <- result
	}
	r.told = nil
}

func (s *Server) reloadOnce(ctx context.Context, read func() (*config.Config, error)) (r reloaded) {
	s.notifyReloading()
	cfg, err := read()
	if err == nil {
		r.change, err = s.reload(ctx, cfg)
	}
	if err != nil {
		s.log.Error(logline.ReloadFailed, zap.Error(err))
		s.notifyReady(fmt.Sprintf("%s: %v", logline.ReloadFailed, err))
		return reloaded{err: err}
	}
	r.applied, r.kept = s.apply(cfg)
	s.checkKeytab()
	s.registration.soon() // rpcbind may have restarted
	s.groups.Forget()     // the administrator may have changed groups
	s.gss.Refresh()       // the administrator may have changed the users of principals
	fields := r.change.Fields()
	if len(r.applied) > 0 {
		fields = append(fields, zap.Strings("keys", r.applied))
	}
	s.log.Info(logline.Reloaded, fields...)
	if r.waiting = cfg.Differing(s.cfg, false); len(r.waiting) > 0 {
		s.log.Warn(logline.RestartNeeded, zap.Strings("keys", r.waiting))
	}
	s.notifyReady(s.condition())
	return r
}

// reload replaces the server's exports by those of cfg: it opens new exports, replaces those whose
// directory or options have changed, and removes those that cfg does not have. On an error nothing
// changes.
func (s *Server) reload(ctx context.Context, cfg *config.Config) (exports.Change, error) {
	switch {
	case s.offer == nil:
		return exports.Change{}, errors.New("the exports of this server are its program's own")
	case len(cfg.Exports) == 0:
		return exports.Change{}, cfg.At(errNoExports)
	}
	c, err := s.offer.Serve(ctx, cfg.Exports)
	if err == nil && (len(cfg.Exports) > 1 || s.exports.CrossMount()) {
		s.pool.LimitGroups(int64(s.cfg.Memory.Ceiling) / 2)
	}
	return c, err
}

var errNoExports = errors.New("nothing to serve: add --export DIR, or an [[export]] with a path to the configuration")

// exportsAtFault tells systemd which exports cannot be opened. During a reload, the end of the reload
// tells it.
func (s *Server) exportsAtFault(faults []exports.Fault) {
	text := conditionOf(faults)
	s.status.Store(&text)
	s.reloads.mu.Lock()
	defer s.reloads.mu.Unlock()
	if !s.reloads.running {
		s.tellSystemd("STATUS=" + text)
	}
}

// condition returns the status text of a server that serves.
func (s *Server) condition() string {
	if text := s.status.Load(); text != nil {
		return *text
	}
	return conditionOf(nil)
}

func conditionOf(faults []exports.Fault) string {
	var out, kept []string
	for _, f := range faults {
		if line := f.Name + " (" + f.Err.Error() + ")"; f.Served {
			kept = append(kept, line)
		} else {
			out = append(out, line)
		}
	}
	text := "serving"
	if len(out) > 0 {
		text += "; not served: " + strings.Join(out, ", ")
	}
	if len(kept) > 0 {
		text += "; served from the former directory: " + strings.Join(kept, ", ")
	}
	return text
}
