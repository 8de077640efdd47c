package exports

import (
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// An Opening opens the directories of a configuration.
type Opening struct {
	Filesystems *Filesystems
	Log         *zap.Logger
	// Enters, if not nil, is called before each export is opened, with a description of this step.
	Enters func(what string)
	// Now has the exports that are served at present.
	Now []*export.Export
}

// Open opens the directories of all exports, and stores in the state directory which directories
// they are. If clients may have changed which directory is at the path of an export (see lostRoot),
// but the export is already served, Open keeps the directory that is served, and logs the error. If
// Open fails, it closes the directories that it has opened.
func (o *Opening) Open(all []config.Export) ([]*export.Export, error) {
	before, err := readRoots(o.Filesystems.state)
	if err != nil {
		return nil, err
	}
	ways := &ways{all: all, at: locateExports(all)}
	is := make(roots, len(all))
	var exports []*export.Export
	fail := func(err error) ([]*export.Export, error) {
		closeAll(exports, o.Filesystems)
		return nil, err
	}
	for i := range all {
		e, err := describe(&all[i])
		if err != nil {
			return fail(err)
		}
		dir := all[i].Path.Path
		if o.Enters != nil {
			o.Enters(fmt.Sprintf("opening export %s (%s)", e.Name, dir))
		}
		var was *root
		if r, known := before[e.Name]; known && r.Path == dir {
			was = &r
		}
		fs, root, err := o.openDirectory(e.Name, ways, i, was)
		if _, lost := errors.AsType[*lostRoot](err); lost && was != nil {
			if fs = o.keep(e.Name); fs != nil {
				o.Log.Error("an export's directory is not the one that it was: the one before is still served", zap.String("export", e.Name), zap.Error(err))
				root, err = *was, nil
			}
		}
		if err != nil {
			return fail(fmt.Errorf("export %s: %w", e.Name, err))
		}
		e.FS, is[e.Name] = fs, root
		exports = append(exports, e)
	}
	if err := is.write(o.Filesystems.state, before); err != nil {
		return fail(err)
	}
	return exports, nil
}

// closeAll calls LetGo for the file systems of exports.
func closeAll(exports []*export.Export, fs *Filesystems) error {
	var errs []error
	for _, e := range exports {
		errs = append(errs, fs.LetGo(e.FS))
	}
	return errors.Join(errs...)
}

// describe returns an export with the name and options of c, but without a file system. If this
// process cannot act as another user, describe accepts only exports that need no other user.
func describe(c *config.Export) (*export.Export, error) {
	name, err := c.ExportName()
	if err != nil {
		return nil, err
	}
	e := &export.Export{Name: name}
	c.Options.Apply(e)
	own := local.Identity()
	if local.CanSwitch() || e.Squash == export.AllSquash && e.AnonUID == own.UID && e.AnonGID == own.GID {
		return e, nil
	}
	return nil, fmt.Errorf("export %s: this process can only act as its own user: add the options all_squash,anonuid=%d,anongid=%d, or run it with CAP_SETUID and CAP_SETGID (as root)", e.Name, own.UID, own.GID)
}
