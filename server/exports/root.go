package exports

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

	"github.com/nfsrdmad/nfsrdmad/internal/durable"
	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// rootsFile stores which directories the exports had when they were last opened.
const rootsFile = "exports.json"

// A root is the directory of an export: its path, and its file system and handle.
type root struct {
	Path   string `json:"path"`
	FSID   string `json:"fsid"`
	Handle string `json:"handle"`
	// Mount: something is mounted on the directory.
	Mount bool `json:"mount,omitempty"`
}

// roots are the roots of exports, by the exports' names.
type roots map[string]root

// readRoots reads the roots from the state directory.
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
		return nil, fmt.Errorf("%s, which says what the directories of exports were, cannot be read: %w: remove it if they are what they are to be", file, config.Cause(err))
	}
	return r, nil
}

// write stores r in the state directory, unless it is equal to before.
func (r roots) write(state string, before roots) error {
	if maps.Equal(r, before) {
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

// A lostRoot reports that the directory at an export's path may not be the one that the
// administrator means.
type lostRoot struct{ why string }

func (e *lostRoot) Error() string { return e.why }

// openDirectory opens the directory of an export. If the path leads to another directory than before, and
// lies within another export, that export's clients may have put it there: then openDirectory returns a
// *lostRoot. A mount counts as the administrator's, because clients cannot mount.
func (o *Opening) openDirectory(name string, ways *ways, i int, was root, known bool) (vfs.FileSystem, root, error) {
	dir := ways.all[i].Path.Path
	way, err := ways.walk(i)
	if err != nil {
		return nil, root{}, err
	}
	defer unix.Close(way.fd)
	fs, err := o.Filesystems.show(dir, way.fd)
	if err != nil {
		return nil, root{}, err
	}
	var a vfs.Attr
	if err := fs.GetAttr(&vfs.Op{Cred: &vfs.Cred{}}, fs.Root(), &a); err != nil {
		return nil, root{}, errors.Join(fmt.Errorf("%s: %w", dir, err), o.Filesystems.LetGo(fs))
	}
	is := root{Path: dir, FSID: fmt.Sprintf("%x", a.FSID), Handle: fs.Root().String(), Mount: way.mount}
	switch {
	case !known || is == was:
	case way.within == "" || is.Mount && was.Mount:
		o.Log.Warn("the path of an export leads to another directory than before, which is served now", zap.String("export", name), zap.String("path", dir))
	default:
		why := fmt.Sprintf("%s is another directory than before, and lies in %s, whose clients may have put it there: if it is what you mean, remove %s, and reload or start",
			dir, way.within, filepath.Join(o.Filesystems.state, rootsFile))
		return nil, root{}, errors.Join(&lostRoot{why}, o.Filesystems.LetGo(fs))
	}
	return fs, is, nil
}

// keep returns the present file system of an export, to be served further. It returns nil if the
// export has none from the configured path.
func (o *Opening) keep(name string, was root, known bool) vfs.FileSystem {
	for _, e := range o.Now {
		if e.Name == name && known && o.Filesystems.again(e.FS) {
			return e.FS
		}
	}
	return nil
}
