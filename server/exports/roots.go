package exports

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/internal/durable"
	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// rootsFile is the file in the state directory that stores which directories exports have, and had
// when they were last served.
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

// roots has the roots of exports that are or were served, by their paths.
type roots map[string]root

// readRoots reads the roots from the state directory. There are none if there is no file yet.
func readRoots(state string) (roots, error) {
	file := filepath.Join(state, rootsFile)
	stored := make(roots)
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return stored, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &stored)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read %s, the record of the directories of exports: %w: if the directories of the exports are the right ones, remove the file", file, config.Cause(err))
	}
	r := make(roots, len(stored))
	for _, one := range stored { // an earlier version stored them by the names of exports
		r[one.Path] = one
	}
	return r, nil
}

// update adds served, the roots of exports that are served, to those that are stored in the state
// directory. It keeps the roots of exports that are not served any more: if the same path is exported
// again, its directory must be the same.
func (served roots) update(state string) error {
	before, err := readRoots(state)
	if err != nil {
		return err
	}
	now := maps.Clone(before)
	maps.Copy(now, served)
	if reflect.DeepEqual(now, before) {
		return nil
	}
	b, err := json.MarshalIndent(now, "", "\t")
	if err == nil {
		err = durable.Write(filepath.Join(state, rootsFile), append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("cannot record in state directory %s which directories exports have: %w", state, config.Cause(err))
	}
	return nil
}
