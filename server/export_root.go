package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// rootsFile has what the directories of exports were when they were last opened.
const rootsFile = "exports.json"

// A root is the directory of an export: which path it was found at, and which directory of which
// file system it is.
type root struct {
	Path   string `json:"path"`
	FSID   string `json:"fsid"`
	Handle string `json:"handle"`
	// Mount: something is mounted there.
	Mount bool `json:"mount,omitempty"`
}

// roots are those of exports, by their names.
type roots map[string]root

// readRoots are those that the state directory has.
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
		return nil, fmt.Errorf("%s, which says what the directories of exports were, cannot be read: %w: remove it if they are what they are to be", file, cause(err))
	}
	return r, nil
}

// write puts r into the state directory, unless it has them already.
func (r roots) write(state string, before roots) error {
	if maps.Equal(r, before) {
		return nil
	}
	b, err := json.MarshalIndent(r, "", "\t")
	if err == nil {
		err = writeDurably(filepath.Join(state, rootsFile), append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("state directory %s: what the directories of exports are cannot be written: %w", state, cause(err))
	}
	return nil
}

// A lostRoot says why what is at the path of an export need not be what its administrator means.
type lostRoot struct{ why string }

func (e *lostRoot) Error() string { return e.why }

// open opens the directory of an export. Where it was known before as another directory, clients
// of an export that it lies in may have put this one there: then it is not served, which is a
// *lostRoot. No client makes a mount.
func (o *opening) open(name string, ways *ways, i int, was root, known bool) (vfs.FileSystem, root, error) {
	dir := ways.all[i].Path.Path
	way, err := ways.walk(i)
	if err != nil {
		return nil, root{}, err
	}
	defer unix.Close(way.fd)
	fs, err := o.trees.show(dir, way.fd)
	if err != nil {
		return nil, root{}, err
	}
	var a vfs.Attr
	if err := fs.GetAttr(&vfs.Op{Cred: &vfs.Cred{}}, fs.Root(), &a); err != nil {
		return nil, root{}, errors.Join(fmt.Errorf("%s: %w", dir, err), o.trees.letGo(fs))
	}
	is := root{Path: dir, FSID: fmt.Sprintf("%x", a.FSID), Handle: fs.Root().String(), Mount: way.mount}
	switch {
	case !known || is == was:
	case way.within == "" || is.Mount && was.Mount:
		o.log.Warn("the path of an export leads to another directory than before, which is served now", zap.String("export", name), zap.String("path", dir))
	default:
		why := fmt.Sprintf("%s is another directory than before, and lies in %s, whose clients may have put it there: if it is what you mean, remove %s, and reload or start",
			dir, way.within, filepath.Join(o.trees.state, rootsFile))
		return nil, root{}, errors.Join(&lostRoot{why}, o.trees.letGo(fs))
	}
	return fs, is, nil
}

// keep is the file system of an export that is served now, to be served on; nil where there is
// none at the path that the configuration says.
func (o *opening) keep(name string, was root, known bool) vfs.FileSystem {
	for _, e := range o.now {
		if e.Name == name && known && o.trees.again(e.FS) {
			return e.FS
		}
	}
	return nil
}
