package local

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A search walks the tree and notes every name in it. For some time after it
// has ended, what is not in the index then is taken to be gone: clients with
// handles of files that are must not keep the daemon walking.
const (
	searchShare = 10      // of the time, one part at most goes to walks
	maxWalk     = 4 << 20 // names
)

// find looks for h: in the directory where it was last, then everywhere.
func (x *index) find(h *vfs.Handle) (int, error) {
	for _, p := range x.places(h) {
		if dir, err := x.openOr(&p.dir); err == nil {
			x.scan(dir, &p.dir, nil)
			unix.Close(dir)
			if fd, err := x.openPlace(h); err == nil {
				return fd, nil
			}
		}
	}
	x.search.Lock()
	defer x.search.Unlock()
	if fd, err := x.openPlace(h); err == nil {
		return fd, nil // another's search met it
	}
	if began := time.Now(); x.renewed.IsZero() || began.Sub(x.renewed) >= searchShare*x.took {
		x.walk()
		x.renewed = time.Now()
		x.took = x.renewed.Sub(began)
	}
	fd, err := x.openPlace(h)
	if err != nil && !outOfDescriptors(err) {
		err = syscall.ESTALE
	}
	return fd, err
}

func (x *index) openOr(dir *vfs.Handle) (int, error) {
	if *dir == x.root {
		return x.openRoot()
	}
	return x.openPlace(dir)
}

// walk notes the whole tree, breadth first, holding one directory open at a time.
func (x *index) walk() {
	x.fs.stats.searches.Add(1)
	todo := []vfs.Handle{x.root}
	for seen := 0; len(todo) > 0 && seen < maxWalk; todo = todo[1:] {
		dir, err := x.openOr(&todo[0])
		if err != nil {
			continue
		}
		seen += x.scan(dir, &todo[0], func(h vfs.Handle) { todo = append(todo, h) })
		unix.Close(dir)
	}
}

// scan notes the names in dir, whose handle is h, and returns how many there
// are. It calls sub for each directory.
func (x *index) scan(dir int, h *vfs.Handle, sub func(vfs.Handle)) int {
	list, err := x.fs.reopen(dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return 0
	}
	defer unix.Close(list)
	buf := make([]byte, namesAtOnce)
	seen := 0
	for {
		n, err := sysGetdents(list, buf)
		if err != nil || n == 0 {
			return seen
		}
		for e, rest := nextDirent(buf[:n]); e.name != nil; e, rest = nextDirent(rest) {
			if isDot(e.name) || isDotDot(e.name) {
				continue
			}
			seen++
			x.noteEntry(dir, h, e.name, sub)
		}
	}
}

func (x *index) noteEntry(dir int, h *vfs.Handle, name []byte, sub func(vfs.Handle)) {
	fd, err := sysOpenat2(dir, name, unix.O_PATH, 0, unix.RESOLVE_NO_XDEV)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if fstat(fd, &st) != nil {
		return
	}
	is, err := identify(fd, &st)
	if err != nil {
		return
	}
	x.note(*h, is, name)
	if sub != nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		sub(is)
	}
}
