package exports

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/internal/durable"
	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/vfs"
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

// rootsFile is the file in the state directory that stores which directories the exports had when
// they were last opened.
const rootsFile = "exports.json"

// A root is the directory of an export.
type root struct {
	Path string `json:"path"`
	directory
	// Mounts has the mounts on the path to the directory, the innermost first.
	Mounts []mount `json:"mounts,omitempty"`
	// Scope is the scope of the handles that clients got of the directory (vfs.Scoped). It is empty if an
	// earlier version of the server wrote the record.
	Scope string `json:"handles,omitempty"`
}

// A directory is the identity of a directory: its file system and file handle. If the file system has
// no identity that lasts over reboots, FSID also contains the machine's boot ID (see boot).
type directory struct {
	FSID   string `json:"fsid"`
	Handle string `json:"handle"`
}

// inBoot stands between the file system's ID and the kernel's boot ID in an FSID that has both.
const inBoot = " in boot "

// A mount is one mount on the path to an export. The field Top identifies its root directory, and
// the field In the directory that has the mount point.
type mount struct {
	Top directory `json:"top"`
	In  directory `json:"in"`
}

// rootAt returns the root of an export with this path. fd is a descriptor of the directory.
func rootAt(path string, fd int) (r root, err error) {
	r.Path = path
	if r.directory, err = identify(fd); err != nil {
		return r, err
	}
	var top directory // the root directory of a mount, if the directory above it comes next
	var topErr error
	inMount := true
	err = climb(fd, func(fd int, st *unix.Statx_t) (bool, error) {
		if !inMount {
			in, err := identify(fd)
			if err = errors.Join(topErr, err); err != nil {
				return false, err
			}
			r.Mounts = append(r.Mounts, mount{top, in})
		}
		if inMount = st.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0; !inMount {
			top, topErr = identify(fd)
		}
		return true, nil
	})
	return r, err
}

// identify returns the identity of the directory open on fd.
func identify(fd int) (directory, error) {
	id, err := local.IdentifyDirectory(fd)
	if err != nil {
		return directory{}, err
	}
	d := directory{FSID: fmt.Sprintf("%x", id.FSID), Handle: id.Handle.String()}
	if !id.Lasting {
		d.FSID += inBoot + boot()
	}
	return d, nil
}

// boot returns the boot ID of the machine (random(4)).
func boot() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b))
}

// mayBe reports whether d can be the same directory as the argument, which describes a directory
// at an earlier time. If the file system has no identity that lasts over reboots, and the machine
// has booted since, only the file handles are compared.
func (d directory) mayBe(was directory) bool {
	_, boot, only := strings.Cut(d.FSID, inBoot)
	_, before, onlyThen := strings.Cut(was.FSID, inBoot)
	return d.Handle == was.Handle && (d.FSID == was.FSID || only && onlyThen && boot != before)
}

// r.is reports whether r is the same directory as an earlier root of the same export. It also
// returns true if another file system than before is mounted on the same directory: only the
// administrator can mount, so this difference is intended.
func (r *root) is(was *root) bool {
	now, before := r.directory, was.directory
	for i := 0; !now.mayBe(before); i++ {
		if i == min(len(r.Mounts), len(was.Mounts)) || r.Mounts[i].Top.mayBe(was.Mounts[i].Top) {
			return false
		}
		now, before = r.Mounts[i].In, was.Mounts[i].In
	}
	return true
}

// roots has the roots of exports, by the exports' names.
type roots map[string]root

// readRoots reads the roots from the state directory. They are nil if there is no file yet.
func readRoots(state string) (r roots, err error) {
	file := filepath.Join(state, rootsFile)
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read %s, the record of the directories of exports: %w: if the directories of the exports are the right ones, remove the file", file, config.Cause(err))
	}
	return r, nil
}

// write stores r in the state directory, unless it equals the roots that are already stored there
// (the argument before).
func (r roots) write(state string, before roots) error {
	if reflect.DeepEqual(r, before) {
		return nil
	}
	b, err := json.MarshalIndent(r, "", "\t")
	if err == nil {
		err = durable.Write(filepath.Join(state, rootsFile), append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("state directory %s: what the directories of exports are cannot be written: %w", state, config.Cause(err))
	}
	return nil
}

// A lostRoot is the error that clients of another export may have changed which directory is at an
// export's path.
type lostRoot struct{ why string }

func (e *lostRoot) Error() string { return e.why }

// openDirectory opens the file system of export i, and returns it with the export's root. If the
// export was opened with the same path before, the argument was is the root of that time; otherwise
// it is nil. If the path now leads to another directory, and through the directory of another
// export, the clients of that export may have put the directory there. openDirectory then returns a
// *lostRoot.
func (o *Opening) openDirectory(name string, ways *ways, i int, was *root) (vfs.FileSystem, root, error) {
	dir := ways.all[i].Path.Path
	fd, within, err := ways.walk(i)
	if err != nil {
		return nil, root{}, err
	}
	defer unix.Close(fd)
	is, err := rootAt(dir, fd)
	if err != nil {
		return nil, root{}, fmt.Errorf("%s: %w", dir, err)
	}
	if was != nil && within != "" && !is.mayBe(was.directory) && !is.is(was) {
		return nil, root{}, &lostRoot{fmt.Sprintf("%s is another directory than before, and lies in %s, whose clients may have put it there: if it is what you mean, remove %s, and reload or start",
			dir, within, filepath.Join(o.Filesystems.state, rootsFile))}
	}
	fs, err := o.Filesystems.show(dir, fd)
	if err != nil {
		return nil, root{}, err
	}
	scope := fs.Scope()
	is.Scope = hex.EncodeToString(scope[:])
	if was != nil {
		o.tellChange(name, &is, was)
	}
	return fs, is, nil
}

// tellChange logs that an export shows something else than at an earlier time (was), or that the handles
// which clients got then are stale. At a start that is no warning if only another file system is mounted,
// because a tmpfs is another one after each boot.
func (o *Opening) tellChange(name string, is, was *root) {
	level, what := zap.WarnLevel, ""
	served := slices.ContainsFunc(o.Now, func(e *export.Export) bool { return e.Name == name })
	switch {
	case is.mayBe(was.directory) && is.Scope == was.Scope:
		return
	case is.mayBe(was.directory) && was.Scope == "":
		what, served = "this version of nfsrdmad does not accept the file handles that an earlier version gave to clients", true
	case is.mayBe(was.directory):
		what = "the file system at the path of an export was mounted anew, and is served now"
	case is.is(was):
		what = "another file system than before is mounted at the path of an export, and is served now"
	default:
		what, served = "the path of an export leads to another directory than before, which is served now", true
	}
	if !served {
		level = zap.InfoLevel
	}
	fields := []zap.Field{zap.String("export", name), zap.String("path", is.Path)}
	if is.Scope != was.Scope {
		fields = append(fields, zap.String("clients", "their file handles of before are stale: where a mount point is stale, unmount it and mount again"))
	}
	o.Log.Log(level, what, fields...)
}

// keep returns the file system with which the export is served at present, and counts one more
// export of it. Open calls it if the directory at the export's path must not be opened. It returns
// nil if no export with this name is served.
func (o *Opening) keep(name string) vfs.FileSystem {
	for _, e := range o.Now {
		if e.Name == name && o.Filesystems.again(e.FS) {
			return e.FS
		}
	}
	return nil
}
