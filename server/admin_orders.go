package server

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/nfsrdmad/nfsrdmad/server/admin"
	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/server/logline"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// Evict implements admin.Daemon.
func (a *administration) Evict(choice admin.Choice) (*admin.Taken, error) {
	of, err := a.choose(&choice, true)
	if err != nil {
		return nil, err
	}
	taken := &admin.Taken{}
	for c := range of.clients {
		n, err := a.clients.Expel(c)
		taken.Opens += n
		taken.Clients = append(taken.Clients, c.Address().String())
		a.log.Warn(logline.ClientEvicted,
			zap.Stringer("client", c.Address()), zap.String("name", clientsName(c)), zap.Int("files", n), zap.Error(err))
		if err != nil {
			return nil, fmt.Errorf("the daemon took all opens and locks of the client at %s, but could not remove its record from clients.db: %w; the client stays listed: repeat the command when the state directory can be written", c.Address(), err)
		}
	}
	return taken, nil
}

// Release implements admin.Daemon.
func (a *administration) Release(choice admin.Choice) (*admin.Taken, error) {
	of, err := a.choose(&choice, true)
	if err != nil {
		return nil, err
	}
	taken := &admin.Taken{}
	var keys []*state.FileKey
	note := func(c *state.Client, key *state.FileKey, export uint32, has bool) {
		if !of.has(c, key, export) {
			return
		}
		address := c.Address().String()
		if !slices.Contains(taken.Clients, address) {
			taken.Clients = append(taken.Clients, address)
		}
		if has && c.Kind == state.Host && !slices.Contains(taken.Untold, address) {
			taken.Untold = append(taken.Untold, address)
		}
		if of.files != nil && !slices.ContainsFunc(keys, func(k *state.FileKey) bool { return *k == *key }) {
			keys = append(keys, key)
		}
	}
	for e := range a.clients.Opens() {
		note(e.Client, &e.Key, e.Export, true)
	}
	for e := range a.clients.Locks() {
		note(e.Client, &e.Key, e.Export, !e.Waits)
	}
	if of.files == nil {
		keys = []*state.FileKey{nil}
	}
	clients := []*state.Client{nil}
	if of.clients != nil {
		clients = clients[:0]
		for c := range of.clients {
			clients = append(clients, c)
		}
	}
	for _, c := range clients {
		for _, k := range keys {
			taken.Opens += a.clients.Release(state.Which{Client: c, Key: k, Export: of.export})
		}
	}
	a.log.Warn(logline.OpensReleased,
		zap.Strings("clients", taken.Clients), zap.Int("files", taken.Opens),
		unlessEmpty("client", choice.Client), unlessEmpty("export", choice.Export), unlessEmpty("file", choice.File))
	return taken, nil
}

// OnReload sets the function that reads the configuration when the administrator orders a reload. It is called before
// Serve.
func (s *Server) OnReload(read func() (*config.Config, error)) { s.admin.read = read }

// Reread implements admin.Daemon.
func (a *administration) Reread(ctx context.Context) (*admin.Reloaded, error) {
	if a.read == nil {
		return nil, admin.Refuse("this server has no configuration file that it could read again")
	}
	done := make(chan reloaded, 1)
	go a.reloadTelling(a.read, done) // it goes on if the caller does not wait
	select {
	case r := <-done:
		if r.err != nil {
			return nil, admin.Refuse("%s: %v", logline.ReloadFailed, r.err)
		}
		return &admin.Reloaded{Added: r.change.Added, Replaced: r.change.Replaced, Removed: r.change.Removed, Applied: r.applied, Kept: r.kept, Waiting: r.waiting, Condition: a.condition()}, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// EndGrace implements admin.Daemon.
func (a *administration) EndGrace(ctx context.Context) (*admin.Grace, error) {
	was, err := a.clients.EndGrace(ctx)
	if was {
		a.log.Warn(logline.GraceEndedByOrder)
	}
	if err != nil {
		return nil, fmt.Errorf("the grace period is about to end, but the disk has not stored that: %w; see what the log says of clients.db", err)
	}
	return &admin.Grace{Was: was}, nil
}

// logLevels are the values of the key log_level.
var logLevels = []string{"debug", "info", "warn", "error"}

// SetLevel implements admin.Daemon.
func (a *administration) SetLevel(level string) (*admin.Level, error) {
	l, err := zapcore.ParseLevel(level)
	if err != nil || !slices.Contains(logLevels, level) {
		return nil, admin.Refuse("%q is no level of the log: use one of %s", level, strings.Join(logLevels, ", "))
	}
	a.level.SetLevel(l)
	return &admin.Level{Level: a.level.String()}, nil
}
