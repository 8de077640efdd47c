package exports

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/server/logline"
)

// stoppedFile is the file in the state directory that stores which exports the administrator has stopped (Offer.Stop).
// There is none before the first stop.
const stoppedFile = "stopped.json"

// stoppedVersion is the version of the format that this program writes, and the latest that it reads.
const stoppedVersion = 1

// stops is the content of the file. Exports are the names of the stopped exports, sorted.
type stops struct {
	Version int      `json:"version"`
	Exports []string `json:"exports"`
}

// An UnusableStops is the error of a record of stopped exports that cannot be used.
type UnusableStops struct{ File, Why, Remedy string }

func (u *UnusableStops) Error() string { return u.File + " " + u.Why + ": " + u.Remedy }

const servesAll = "then all exports of the configuration are served, also those that were stopped, so first take those out of the configuration whose file systems are to stay unmounted"

// ReadStopped returns the names of the exports that the administrator has stopped, as the state directory has them. It
// has none before the first stop. The error is an *UnusableStops if the record is damaged, or of a later version.
func ReadStopped(state string) ([]string, error) {
	file := filepath.Join(state, stoppedFile)
	b, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%s, the record of the exports that were stopped, cannot be read: %w: see whether the user of the daemon may read it, and whether its disk works", file, config.Cause(err))
	}
	var is struct {
		Version *int `json:"version"`
	}
	damaged := func(why string) error {
		return &UnusableStops{file, "does not say which exports were stopped, because it is damaged (" + why + ")", "restore it from a backup of the state directory, or remove it: " + servesAll}
	}
	if err := json.Unmarshal(b, &is); err != nil {
		return nil, damaged(err.Error())
	}
	switch {
	case is.Version == nil || *is.Version < 1:
		return nil, damaged("it has no version")
	case *is.Version > stoppedVersion:
		return nil, &UnusableStops{file, fmt.Sprintf("is of a later version of nfsrdmad (format %d, and this version knows %d)", *is.Version, stoppedVersion),
			"install that version again, or remove the file: " + servesAll}
	}
	var s stops
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, damaged(err.Error())
	}
	if s.Exports == nil || slices.Contains(s.Exports, "") {
		return nil, damaged("it has no list of names")
	}
	return s.Exports, nil
}

// Recall reads which exports were stopped before this start. Serve then opens none of them. The caller calls it once,
// before Serve.
func (o *Offer) Recall() error {
	names, err := ReadStopped(o.filesystems.state)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.recalled, o.recorded = names, names
	return nil
}

// Unrecorded returns why the state directory may not have which exports are stopped now, so that the next start may
// serve a stopped export, or not serve one that was started again; nil if the next start will know.
func (o *Offer) Unrecorded() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.unrecorded
}

// recordLocked stores which exports are stopped, if the state directory does not have that. An export that the
// configuration does not have any more is not stored. Until Begin it stores nothing, because a start that fails must
// not forget an order. After a failure, the next call tries again; Retry makes one each minute.
func (o *Offer) recordLocked() {
	now := stops{stoppedVersion, []string{}}
	for _, w := range o.wanted {
		if w.stopped {
			now.Exports = append(now.Exports, w.name)
		}
	}
	slices.Sort(now.Exports)
	if !o.begun || o.unrecorded == nil && slices.Equal(now.Exports, o.recorded) {
		return
	}
	b, err := json.MarshalIndent(&now, "", "\t")
	if err == nil {
		err = o.write(filepath.Join(o.filesystems.state, stoppedFile), append(b, '\n'))
	}
	if err != nil {
		err = fmt.Errorf("%s cannot be written: %w", filepath.Join(o.filesystems.state, stoppedFile), config.Cause(err))
		if o.unrecorded == nil || o.unrecorded.Error() != err.Error() {
			o.log.Error(logline.StopsUnrecorded, zap.Strings("stopped", now.Exports), zap.Error(err))
		}
		o.unrecorded = err
		return
	}
	if o.unrecorded != nil {
		o.log.Info(logline.StopsRecorded, zap.Strings("stopped", now.Exports))
	}
	o.recorded, o.unrecorded = now.Exports, nil
}

// stopFaultLocked returns what the status says of a stopped export.
func (o *Offer) stopFaultLocked() error {
	if o.unrecorded == nil {
		return errStopped
	}
	return fmt.Errorf("%w; the next start of the daemon may serve it, because %w", errStopped, o.unrecorded)
}

// isStopped reports whether the name of an export is in stopped.
func isStopped(e *config.Export, stopped []string) bool {
	name, err := e.ExportName()
	return err == nil && slices.Contains(stopped, name)
}
