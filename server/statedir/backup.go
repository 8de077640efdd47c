package statedir

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state/records"
)

// kept are the files of a backup, in their order. The key comes last, so that a backup with a key is whole.
var kept = []string{Version, List, Roots, Stopped, Records, Key}

// Write writes the files of a backup of dir as a tar archive. copyRecords returns the content of the file of records.
// What each file contains is of one moment; no file depends on the others. The index of file handles is not in it.
func Write(w io.Writer, dir string, copyRecords func() ([]byte, error)) error {
	read := func(name string) ([]byte, error) {
		file := filepath.Join(dir, name)
		if name != Records {
			return os.ReadFile(file)
		}
		if _, err := os.Stat(file); err != nil {
			return nil, err
		}
		return copyRecords()
	}
	out := tar.NewWriter(w)
	for _, name := range kept {
		b, err := read(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return err
		}
		if err := put(out, name, b); err != nil {
			return err
		}
	}
	return out.Close()
}

func put(out *tar.Writer, name string, content []byte) error {
	if err := out.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(content)), ModTime: time.Now()}); err != nil {
		return err
	}
	_, err := out.Write(content)
	return err
}

// ErrUsed says that a daemon uses a directory.
var ErrUsed = errors.New("a daemon uses the directory: its files change while they are copied")

// Copy makes a backup of a directory that no daemon uses, the index of file handles included. It returns ErrUsed if one
// does, or starts to. It keeps a daemon from its start only while it reads the other files; a start while it copies the
// index, which may be large, spoils the copy instead.
func Copy(dir, to string) error { return copyWith(dir, to, copyIndex) }

func copyWith(dir, to string, copyIndex func(dir, to string) error) error {
	var small bytes.Buffer
	var began os.FileInfo
	err := unused(dir, func() (err error) {
		began, _ = os.Stat(filepath.Join(dir, Records))
		return Write(&small, dir, func() ([]byte, error) { return records.CopyOf(filepath.Join(dir, Records)) })
	})
	if err != nil {
		return err
	}
	return read(&small, to, func(partial string) error {
		copied := copyIndex(dir, partial)
		return unused(dir, func() error {
			if now, _ := os.Stat(filepath.Join(dir, Records)); !same(began, now) {
				return errors.New("a daemon has used the directory while it was copied: make the backup again")
			}
			return copied
		})
	})
}

// unused calls do while no daemon can start with the directory. It returns ErrUsed if a daemon uses it.
func unused(dir string, do func() error) error {
	done, err := take(dir)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return ErrUsed
	case err != nil:
		return err
	}
	defer done()
	return do()
}

// same reports whether a file of records, which each start of a daemon writes, is as it was. It is nil if there is none.
func same(was, now os.FileInfo) bool {
	if was == nil || now == nil {
		return was == nil && now == nil
	}
	return os.SameFile(was, now) && was.ModTime().Equal(now.ModTime()) && was.Size() == now.Size()
}

// copyIndex copies the index of file handles, if there is one.
func copyIndex(dir, to string) error {
	var made []string
	from, to := filepath.Join(dir, Index), filepath.Join(to, Index)
	err := fs.WalkDir(os.DirFS(from), ".", func(name string, e fs.DirEntry, err error) error {
		file := filepath.Join(to, name)
		switch {
		case err != nil:
			return err
		case e.IsDir():
			made = append(made, file)
			return os.Mkdir(file, 0o700)
		case !e.Type().IsRegular():
			return fmt.Errorf("%s is no file of an index: remove it", filepath.Join(from, name))
		}
		content, err := os.Open(filepath.Join(from, name))
		if err != nil {
			return err
		}
		defer content.Close()
		return store(file, content)
	})
	if len(made) == 0 && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, path := range made {
		err = errors.Join(err, syncDir(path))
	}
	return err
}

// Read makes the directory to, which must not exist, from what Write has written. If it fails, it leaves nothing.
func Read(r io.Reader, to string) error { return read(r, to, func(string) error { return nil }) }

// read is Read. more adds files to the directory, which is called partial until it is whole.
func read(r io.Reader, to string, more func(partial string) error) (err error) {
	if _, err := os.Lstat(to); err == nil {
		return fmt.Errorf("%s exists: name a directory for the backup that does not exist yet", to)
	}
	partial := strings.TrimRight(to, "/") + ".partial"
	switch err := os.Mkdir(partial, 0o700); {
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("%s exists: an earlier backup was interrupted, or another is being made; if none is, remove it", partial)
	case err != nil:
		return err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(partial)
		}
	}()
	if err := extract(r, partial); err != nil {
		return err
	}
	if err := more(partial); err != nil {
		return err
	}
	if err := syncDir(partial); err != nil {
		return err
	}
	if err := os.Rename(partial, to); err != nil {
		return err
	}
	return syncDir(filepath.Dir(filepath.Clean(to)))
}

// largestFile is the largest file of a backup, in bytes: see records.
const largestFile = 1 << 28

func extract(r io.Reader, dir string) error {
	in, whole := tar.NewReader(r), false
	for {
		h, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return fmt.Errorf("the backup ended before it was whole: %w: make it again", err)
		}
		if !slices.Contains(kept, h.Name) || h.Size > largestFile {
			return fmt.Errorf("the backup has %q, which is no file of a state directory", h.Name)
		}
		if err := store(filepath.Join(dir, h.Name), in); err != nil {
			return err
		}
		whole = whole || h.Name == Key
	}
	if !whole {
		return errors.New("the backup has no " + Key + ", without which clients have to mount anew: see 'nfsrdmad state check'")
	}
	return nil
}

func store(file string, content io.Reader) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.Copy(f, content); err != nil {
		return err
	}
	return f.Sync()
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
