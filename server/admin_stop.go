package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/nfsrdmad/nfsrdmad/server/admin"
	"github.com/nfsrdmad/nfsrdmad/server/exports"
)

// StopExport implements admin.Daemon.
func (a *administration) StopExport(ctx context.Context, name string) (*admin.ExportStopped, error) {
	if err := a.mayOrder(name, "stop"); err != nil {
		return nil, err
	}
	s, err := a.offer.Stop(ctx, name)
	switch {
	case errors.Is(err, exports.ErrNoExport):
		return nil, noExport(name)
	case errors.Is(err, context.DeadlineExceeded):
		text := fmt.Sprintf("export %s is stopped, but calls still use its file system, so it cannot be unmounted: 'nfsrdmad calls' shows them; repeat the command to wait for them", name)
		if why := a.offer.Unrecorded(); why != nil {
			text += fmt.Sprintf("; and the next start of the daemon may serve the export again, because %v", why)
		}
		return nil, errors.New(text)
	case err != nil:
		return nil, fmt.Errorf("export %s cannot be stopped: %w", name, err)
	}
	a.listState()
	if why := a.offer.Unrecorded(); why != nil {
		return nil, fmt.Errorf("export %s is stopped, and no file of it is open here any more, but the next start of the daemon may serve it again, because %w: %s", name, why, recordAgain)
	}
	return &admin.ExportStopped{Name: s.Name, Path: s.Path, InUseBy: s.Others}, nil
}

// recordAgain is the remedy if an order about an export holds, and cannot be recorded.
const recordAgain = "make room on the disk of the state directory, or see why it cannot be written, and repeat the command; the daemon also tries again every minute"

// StartExport implements admin.Daemon.
func (a *administration) StartExport(ctx context.Context, name string) (*admin.ExportStarted, error) {
	if err := a.mayOrder(name, "start"); err != nil {
		return nil, err
	}
	err := a.offer.Start(ctx, name)
	why := a.offer.Unrecorded()
	switch {
	case errors.Is(err, exports.ErrNoExport):
		return nil, noExport(name)
	case err != nil && why != nil:
		return nil, admin.Refuse("export %s cannot be served: %v; the daemon tries again every minute, but the next start of the daemon may not, because %v", name, err, why)
	case err != nil:
		return nil, admin.Refuse("export %s cannot be served: %v; the daemon tries again every minute", name, err)
	case why != nil:
		return nil, fmt.Errorf("export %s is served, but the next start of the daemon may stop it again, because %w: %s", name, why, recordAgain)
	}
	return &admin.ExportStarted{Name: name}, nil
}

// mayOrder refuses an order about an export that this server cannot carry out.
func (a *administration) mayOrder(name, order string) error {
	if a.offer == nil {
		return admin.Refuse("the exports of this server are its program's own")
	}
	for _, m := range a.exports.Table.Mounts() {
		if m.Name == name {
			return admin.Refuse("%s is mounted below export %s, and is no export by itself: %s that one, or unmount %s, which the daemon does not keep open for long", name, m.Top.Name, order, m.Point)
		}
	}
	return nil
}

func noExport(name string) error {
	return admin.Refuse("there is no export %q: 'nfsrdmad exports' lists them", name)
}
