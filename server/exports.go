package server

import (
	"errors"
	"fmt"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// openExports opens the directories of a configuration, and tells enters of each
// before. On an error nothing is left open.
func openExports(all []ExportConfig, trees *trees, enters func(what string)) ([]*export.Export, error) {
	var exports []*export.Export
	fail := func(err error) ([]*export.Export, error) {
		closeExports(exports, trees)
		return nil, err
	}
	for i := range all {
		e, err := all[i].describe()
		if err != nil {
			return fail(err)
		}
		enters(fmt.Sprintf("opening export %s (%s)", e.Name, all[i].Path.Path))
		fs, err := trees.show(all[i].Path.Path)
		if err != nil {
			return fail(fmt.Errorf("export %s: %w", e.Name, err))
		}
		e.FS = fs
		exports = append(exports, e)
	}
	return exports, nil
}

func closeExports(exports []*export.Export, trees *trees) error {
	var errs []error
	for _, e := range exports {
		errs = append(errs, trees.letGo(e.FS))
	}
	return errors.Join(errs...)
}

// describe is the export without its file system. Where this process cannot act
// as anybody else, only exports that do not ask it to are served.
func (c *ExportConfig) describe() (*export.Export, error) {
	name, err := c.exportName()
	if err != nil {
		return nil, err
	}
	e := &export.Export{Name: name}
	c.Options.apply(e)
	if !local.CanSwitch() {
		if err := checkOwnIdentity(e, local.Identity()); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// checkOwnIdentity refuses what a process that is only itself cannot serve.
func checkOwnIdentity(e *export.Export, own vfs.Cred) error {
	if e.Squash == export.AllSquash && e.AnonUID == own.UID && e.AnonGID == own.GID {
		return nil
	}
	return fmt.Errorf("export %s: this process can only act as its own user: add the options all_squash,anonuid=%d,anongid=%d, or run it with CAP_SETUID and CAP_SETGID (as root)", e.Name, own.UID, own.GID)
}
