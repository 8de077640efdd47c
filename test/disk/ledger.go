package disk

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/client"
)

// firstMode is the mode of new files.
const firstMode = 0o644

// An object is what the writers know about a file or a directory.
type object struct {
	number int
	isDir  bool
	handle client.Handle
	fileID uint64 // inode number; 0 if no reply contained it
	// exists is true if a reply showed that the object exists, and no later call may have removed
	// it.
	exists bool
	slots  []*register

	mode  uint32   // last mode that was answered; 0 if it is not known
	modes []uint32 // modes that were sent after it

	// version counts the calls that change the content. changes maps each change attribute to the
	// version at which a writer saw it. settled is the version that the last FILE_SYNC or COMMIT
	// made stable.
	version, settled int
	changes          map[string]int
}

func newObject(number, slots int) *object {
	o := &object{number: number, changes: make(map[string]int), mode: firstMode}
	for range slots {
		o.slots = append(o.slots, new(register))
	}
	return o
}

// waits reports whether any of the slots has a value that was answered as UNSTABLE and needs a
// COMMIT.
func (o *object) waits() bool {
	return slices.ContainsFunc(o.slots, func(r *register) bool { return r.waits })
}

// isSettled reports whether each slot's last sent value was answered as stable.
func (o *object) isSettled() bool {
	return !slices.ContainsFunc(o.slots, func(r *register) bool { return len(r.later) > 0 })
}

// A name is an entry of a directory. Only one writer changes it. settled is the file that the
// entry refers to after the last answered call; later are the files that it may refer to after the
// calls that were sent since then. A nil file means that the entry does not exist.
type name struct {
	settled *object
	later   []*object
}

// names are the entries of a directory, by name.
type names map[string]*name

func (n names) send(at string, o *object) {
	if n[at] == nil {
		n[at] = new(name)
	}
	n[at].later = append(n[at].later, o)
}

func (n names) settle(at string, o *object) { n[at].settled, n[at].later = o, nil }

// check reports the differences between a directory on the disk and these names.
func (n names) check(dir string, report func(format string, args ...any)) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		report("%v", err)
		return
	}
	found := make(map[string]fs.FileInfo)
	for _, e := range entries {
		if found[e.Name()], err = e.Info(); err != nil {
			report("%v", err)
		}
		if n[e.Name()] == nil {
			report("%s is in it, and was never made", e.Name())
		}
	}
	there := make(map[*object]bool)
	for at, known := range n {
		info := found[at]
		allowed := append([]*object{known.settled}, known.later...)
		i := slices.IndexFunc(allowed, func(o *object) bool { return o.is(info) })
		if i < 0 {
			report("%s is %s; stable is %s, sent later were %v", at, describe(info), known.settled, known.later)
			continue
		}
		if o := allowed[i]; o != nil {
			there[o] = true
			o.check(filepath.Join(dir, at), info, func(format string, args ...any) {
				report(at+": "+format, args...)
			})
		}
	}
	for at, known := range n {
		for _, o := range append([]*object{known.settled}, known.later...) {
			if o != nil && o.exists && !there[o] {
				there[o] = true
				report("%s is lost, which had the name %s", o, at)
			}
		}
	}
}

func (o *object) String() string {
	if o == nil {
		return "no file"
	}
	return fmt.Sprintf("file %d (inode %d)", o.number, o.fileID)
}

// is reports whether a directory entry may refer to o. A nil entry means that the name does not
// exist, and a nil o that it must not exist.
func (o *object) is(info fs.FileInfo) bool {
	if o == nil || info == nil {
		return o == nil && info == nil
	}
	return o.isDir == info.IsDir() && (o.fileID == 0 || o.fileID == info.Sys().(*syscall.Stat_t).Ino)
}

func describe(info fs.FileInfo) string {
	if info == nil {
		return "no file"
	}
	return fmt.Sprintf("inode %d, %v", info.Sys().(*syscall.Stat_t).Ino, info.Mode())
}

// check reports the differences between a file on the disk and this object, which is a record of
// the file.
func (o *object) check(path string, info fs.FileInfo, report func(format string, args ...any)) {
	if o.mode != 0 && !o.isDir {
		if mode := uint32(info.Mode().Perm()); mode != o.mode && !slices.Contains(o.modes, mode) {
			report("its mode is %#o; stable is %#o, sent later were %#o", mode, o.mode, o.modes)
		}
	}
	if len(o.slots) == 0 {
		return
	}
	content, err := os.ReadFile(path)
	if err != nil {
		report("%v", err)
		return
	}
	if want := len(o.slots) * slotSize; len(content) < want {
		content = append(content, make([]byte, want-len(content))...)
	}
	for i, r := range o.slots {
		if wrong := r.check(content[i*slotSize:(i+1)*slotSize], o.number, i); wrong != "" {
			report("slot %d: %s", i, wrong)
		}
	}
}
