package vfstest

import (
	"path"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

var identityTests = []Test{
	{"identity/the same by every way", testIdentity},
}

// An Identity is what clients know a file by, besides its handle: they take two files with the same
// FSID and FileID for one.
type Identity struct{ FSID, FileID, MountedOn uint64 }

// Identities checks that each file of fs has one Identity: Lookup, GetAttr and both kinds of ReadDir
// tell the same, whichever of them comes to the file first. It returns the identities by path; the
// root's is "/". If restart is not nil, it is called between the rounds: it ends fs and returns the
// same file system, as the next process would find it.
func Identities(t *testing.T, fs vfs.FileSystem, cred *vfs.Cred, restart func(vfs.FileSystem) vfs.FileSystem) map[string]Identity {
	t.Helper()
	s := &sighting{T: t, fs: fs, op: &vfs.Op{Cred: cred, Want: vfs.WantMountedOn}, handles: map[string]vfs.Handle{"/": fs.Root()},
		dirs: []string{"/"}, seen: map[string]Identity{}, first: map[string]string{}}
	for i := 0; i < len(s.dirs); i++ {
		s.lookups(s.dirs[i])
	}
	ways := []struct {
		name string
		look func(dir string)
	}{
		{"Lookup", s.lookups},
		{"ReadDir with attributes", func(dir string) { s.listing(dir, true) }},
		{"GetAttr", s.attributes},
		{"ReadDir", func(dir string) { s.listing(dir, false) }},
	}
	for i := range ways {
		if restart != nil {
			s.fs = restart(s.fs)
		}
		for j := range ways {
			way := ways[(i+j)%len(ways)]
			s.way = way.name + ", round " + ways[i].name
			for _, dir := range s.dirs {
				way.look(dir)
			}
		}
	}
	return s.seen
}

// A sighting is a call of Identities.
type sighting struct {
	*testing.T
	fs      vfs.FileSystem
	op      *vfs.Op
	handles map[string]vfs.Handle
	dirs    []string
	way     string // that is used now
	seen    map[string]Identity
	first   map[string]string // the way by which each identity was seen first
}

// told compares the identity of the file at a path with the identity that an earlier call had for that path.
func (s *sighting) told(name string, is Identity) {
	s.Helper()
	was, ok := s.seen[name]
	if !ok {
		s.seen[name], s.first[name] = is, s.way
	} else if is != was {
		s.Errorf("%s is told as %+v (%s), and as %+v (%s)", name, is, s.way, was, s.first[name])
	}
}

func identityOf(a *vfs.Attr) Identity { return Identity{a.FSID, a.FileID, a.MountedOn} }

// list calls f for each entry of dir.
func (s *sighting) list(dir string, plus bool, f func(e *vfs.DirEntry)) {
	s.Helper()
	var a vfs.Attr
	h := s.handles[dir]
	if _, err := s.fs.ReadDir(s.op, h, 0, plus, &a, func(e *vfs.DirEntry) bool {
		f(e)
		return true
	}); err != nil {
		s.Fatalf("ReadDir of %s: %v", dir, err)
	}
}

// lookups looks up the names in dir, and remembers the files that it finds for the first time.
func (s *sighting) lookups(dir string) {
	s.Helper()
	var names []string
	s.list(dir, false, func(e *vfs.DirEntry) { names = append(names, string(e.Name)) })
	for _, last := range names {
		name := path.Join(dir, last)
		var a vfs.Attr
		o, err := s.fs.Lookup(s.op, s.handles[dir], []byte(last), &a)
		if err != nil || !o.HasAttr {
			s.Fatalf("Lookup of %s: %v, attributes: %v", name, err, o.HasAttr)
		}
		s.told(name, identityOf(&o.Attr))
		if _, known := s.handles[name]; !known {
			s.handles[name] = o.Handle
			if o.Attr.Type == vfs.Directory {
				s.dirs = append(s.dirs, name)
			}
		}
	}
}

// attributes reads the attributes of dir and of the files in it, by their handles.
func (s *sighting) attributes(dir string) {
	s.Helper()
	for name, h := range s.handles {
		if name != dir && path.Dir(name) != dir {
			continue
		}
		var a vfs.Attr
		if err := s.fs.GetAttr(s.op, h, &a); err != nil {
			s.Fatalf("GetAttr of %s: %v", name, err)
		}
		s.told(name, identityOf(&a))
	}
}

// listing lists dir.
func (s *sighting) listing(dir string, plus bool) {
	s.Helper()
	s.list(dir, plus, func(e *vfs.DirEntry) {
		name := path.Join(dir, string(e.Name))
		if was := s.seen[name]; e.FileID != was.FileID {
			s.Errorf("%s is listed as file %d, is %d (%s)", name, e.FileID, was.FileID, s.way)
		}
		if e.HasAttr {
			s.told(name, identityOf(&e.Attr))
		}
	})
}

func testIdentity(x *fixture) {
	u := x.self
	d := u.mkdir(x.dir, "d", 0o755)
	below := u.mkdir(d, "below", 0o755)
	u.create(below, "f", 0o644)
	u.create(x.dir, "f", 0o644)
	if x.info.Symlinks {
		u.symlink(d, "l", "text")
	}
	if x.info.HardLinks {
		var a vfs.Attr
		f := u.lookup(x.dir, "f").Handle
		_, err := x.fs.Link(u.op, f, below, []byte("link"), &a)
		x.ok(err, "Link")
	}
	var restart func(vfs.FileSystem) vfs.FileSystem
	if x.opt.Restart != nil {
		restart = func(vfs.FileSystem) vfs.FileSystem {
			x.restart(x.opt.Restart)
			return x.fs
		}
	}
	ids := Identities(x.T, x.fs, u.op.Cred, restart)
	byID := map[Identity]string{}
	for name, id := range ids {
		id.MountedOn = 0
		other, ok := byID[id]
		if both := [2]string{other, name}; ok && both != [2]string{"/work/f", "/work/d/below/link"} && both != [2]string{"/work/d/below/link", "/work/f"} {
			x.Errorf("%s and %s are both file %d of file system %x", other, name, id.FileID, id.FSID)
		}
		byID[id] = name
	}
	if x.info.HardLinks && ids["/work/f"] != ids["/work/d/below/link"] {
		x.Errorf("two names of one file are %+v and %+v", ids["/work/f"], ids["/work/d/below/link"])
	}
}
