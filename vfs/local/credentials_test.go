package local_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

type matrix struct {
	t   *testing.T
	fs  *local.FS
	dir string
}

func (m matrix) with(t *testing.T) matrix { m.t = t; return m }

func as(c *vfs.Cred) *vfs.Op { return &vfs.Op{Cred: c} }

func id(uid, gid uint32, groups ...uint32) *vfs.Cred {
	return &vfs.Cred{UID: uid, GID: gid, Groups: groups}
}

func mode(bits uint32) vfs.SetAttr { return vfs.SetAttr{SetMode: true, Mode: bits} }

func (m matrix) create(c *vfs.Cred, dir vfs.Handle, name string, bits uint32) (vfs.Handle, error) {
	o, _, err := m.fs.Create(as(c), dir, []byte(name), &vfs.CreateHow{Mode: vfs.Guarded, Attr: mode(bits)})
	return o.Handle, err
}

func (m matrix) must(err error, what ...any) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(append(what, ": ", err)...)
	}
}

func (m matrix) refused(err error, want syscall.Errno, what string) {
	m.t.Helper()
	if !errors.Is(err, want) {
		m.t.Errorf("%s: %v, want %v", what, err, want)
	}
}

func (m matrix) write(c *vfs.Cred, h vfs.Handle, p string) error {
	_, _, _, err := m.fs.Write(as(c), h, 0, [][]byte{[]byte(p)}, vfs.FileSync)
	return err
}

func (m matrix) read(c *vfs.Cred, h vfs.Handle) error {
	var a vfs.Attr
	_, _, err := m.fs.Read(as(c), h, 0, make([]byte, 10), &a)
	return err
}

func (m matrix) chmod(c *vfs.Cred, h vfs.Handle, bits uint32) error {
	s := mode(bits)
	_, err := m.fs.SetAttr(as(c), h, &s, nil)
	return err
}

func (m matrix) attr(h vfs.Handle) (a vfs.Attr) {
	m.t.Helper()
	m.must(m.fs.GetAttr(as(id(0, 0)), h, &a), "GetAttr")
	return a
}

// itself checks calls with the daemon's own identity, c.
func (m matrix) itself(c *vfs.Cred) {
	name := fmt.Sprint("own", len(c.Groups))
	s := mode(0o777)
	d, _, err := m.fs.Mkdir(as(c), m.fs.Root(), []byte(name), &s)
	m.must(err, "Mkdir")
	f, err := m.create(c, d.Handle, "f", 0o600)
	m.must(err, "Create")
	m.must(m.write(c, f, "data"), "Write")
	m.must(m.read(c, f), "Read")
	m.must(m.chmod(c, f, 0o444), "SetAttr")
	// The owner of a file may write it whatever its mode is (RFC 1813 §4.4).
	m.must(m.write(c, f, "more"), "Write to 0444")
	m.fs.Sweep(5)
	m.must(m.write(c, f, "still"), "Write to 0444, opened anew")
	m.must(m.chmod(c, f, 0o000), "SetAttr")
	m.fs.Sweep(5)
	m.must(m.read(c, f), "Read of 0000, opened anew")
	if a := m.attr(f); a.Mode != 0 {
		m.t.Errorf("mode %o after opening", a.Mode)
	}
	// If the owner of a directory may not search it, the handle of the directory is still valid.
	m.must(m.chmod(c, d.Handle, 0o600), "SetAttr")
	m.fs.Sweep(5)
	m.attr(d.Handle)
	m.must(m.chmod(c, d.Handle, 0o777), "SetAttr of a directory without search")
	_, _, err = m.fs.Rename(as(c), d.Handle, []byte("f"), m.fs.Root(), []byte(name+"f"))
	m.must(err, "Rename")
	var a vfs.Attr
	_, err = m.fs.Link(as(c), f, d.Handle, []byte("l"), &a)
	m.must(err, "Link")
	_, err = m.fs.Remove(as(c), d.Handle, []byte("l"))
	m.must(err, "Remove")
	_, err = m.fs.Rmdir(as(c), m.fs.Root(), []byte(name))
	m.must(err, "Rmdir")
	if a := m.attr(f); a.UID != c.UID || a.GID != c.GID {
		m.t.Errorf("owned by %d:%d", a.UID, a.GID)
	}
	m.fs.EvictAll()
	m.must(m.read(c, f), "Read by handle")
}

// noOthers checks that a daemon that cannot switch users refuses calls of other users, and makes
// no such call with another identity.
func (m matrix) noOthers(self *vfs.Cred) {
	d, _, err := m.fs.Mkdir(as(self), m.fs.Root(), []byte("open"), &vfs.SetAttr{SetMode: true, Mode: 0o777})
	m.must(err, "Mkdir")
	f, err := m.create(self, d.Handle, "f", 0o666)
	m.must(err, "Create")
	for _, c := range []*vfs.Cred{
		id(self.UID+1, self.GID), id(self.UID, self.GID+1), id(65534, 65534),
		id(self.UID, self.GID, 4321), id(4321, 4321, self.GID),
	} {
		_, err := m.create(c, d.Handle, "other", 0o666)
		m.refused(err, syscall.EPERM, fmt.Sprintf("Create as %v", *c))
		m.refused(m.chmod(c, f, 0o600), syscall.EPERM, "SetAttr")
		_, err = m.fs.Remove(as(c), d.Handle, []byte("f"))
		m.refused(err, syscall.EPERM, "Remove")
		var a vfs.Attr
		_, err = m.fs.Lookup(as(c), d.Handle, []byte("f"), &a)
		m.refused(err, syscall.EPERM, "Lookup")
		_, err = m.fs.Access(as(c), f, vfs.AccessRead, &a)
		m.refused(err, syscall.EPERM, "Access")
		if c.UID != self.UID {
			m.refused(m.read(c, f), syscall.EPERM, "Read")
			m.refused(m.write(c, f, "x"), syscall.EPERM, "Write")
		}
	}
	names, err := os.ReadDir(filepath.Join(m.dir, "open"))
	if err != nil || len(names) != 1 {
		m.t.Errorf("%v in the directory, %v", names, err)
	}
}

// unmapped checks that the daemon refuses a caller whose ID is not mapped in this user namespace.
// For such an ID, setfsuid changes nothing and reports no error, so the thread keeps the identity
// that it had.
func (m matrix) unmapped(self *vfs.Cred) {
	d, _, err := m.fs.Mkdir(as(self), m.fs.Root(), []byte("unmapped"), &vfs.SetAttr{SetMode: true, Mode: 0o777})
	m.must(err, "Mkdir")
	for _, c := range []*vfs.Cred{id(70000, 0), id(0, 70000), id(70000, 70000)} {
		_, err = m.create(c, d.Handle, "f", 0o600)
		m.refused(err, syscall.EPERM, fmt.Sprintf("Create as %v", *c))
	}
	names, err := os.ReadDir(filepath.Join(m.dir, "unmapped"))
	if err != nil || len(names) != 0 {
		m.t.Errorf("%v in the directory, %v", names, err)
	}
}

// setID checks that a write through the daemon's descriptor clears the set-id bits.
func (m matrix) setID(c *vfs.Cred) {
	f, err := m.create(c, m.fs.Root(), "setid", 0o6755)
	m.must(err, "Create")
	if a := m.attr(f); a.Mode != 0o6755 {
		m.t.Fatalf("made with mode %o", a.Mode)
	}
	m.must(m.write(c, f, "x"), "Write")
	if a := m.attr(f); a.Mode != 0o755 {
		m.t.Errorf("after a write the mode is %o", a.Mode)
	}
	m.must(m.chmod(c, f, 0o6755), "SetAttr")
	_, err = m.fs.SetAttr(as(c), f, &vfs.SetAttr{SetSize: true}, nil)
	m.must(err, "SetAttr")
	if a := m.attr(f); a.Mode != 0o755 {
		m.t.Errorf("after a truncation the mode is %o", a.Mode)
	}
	m.must(m.chmod(c, f, 0o6755), "SetAttr")
	direct, err := os.OpenFile(filepath.Join(m.dir, "setid"), os.O_WRONLY, 0)
	m.must(err, "open")
	_, err = direct.Write([]byte("x"))
	m.must(err, "write")
	direct.Close()
	if a := m.attr(f); a.Mode != 0o755 {
		m.t.Errorf("the kernel leaves the mode %o after a write of this process", a.Mode)
	}
}

// others checks that each caller has exactly the rights that the kernel gives it, and those that
// NFS adds (RFC 1813 §4.4).
func (m matrix) others(self *vfs.Cred) {
	ann, ben := id(1001, 1001), id(1002, 1002)
	root := id(0, 0)
	if self.UID != 0 {
		root = self // do not test the rights of user 0 here
	}
	s := mode(0o777)
	o, _, err := m.fs.Mkdir(as(self), m.fs.Root(), []byte("all"), &s)
	m.must(err, "Mkdir")
	all := o.Handle
	// blind is true if the daemon lacks the capability to use files and directories whose mode
	// forbids that.
	blind := m.fs.Scheme() == "index" && self.UID != 0

	_, err = m.create(ann, m.fs.Root(), "f", 0o600)
	m.refused(err, syscall.EACCES, "Create in a directory of another's")
	f, err := m.create(ann, all, "f", 0o640)
	m.must(err, "Create")
	if a := m.attr(f); a.UID != 1001 || a.GID != 1001 || a.Mode != 0o640 {
		m.t.Errorf("made as %d:%d %o", a.UID, a.GID, a.Mode)
	}
	m.must(m.write(ann, f, "ann's"), "Write")
	m.must(m.read(ann, f), "Read")
	m.refused(m.read(ben, f), syscall.EACCES, "Read by another")
	m.must(m.read(id(1002, 1002, 5, 1001), f), "Read by a group")
	m.must(m.read(id(1002, 1001), f), "Read by a primary group")
	m.refused(m.write(id(1002, 1002, 1001), f, "x"), syscall.EACCES, "Write by a group that may read")
	m.refused(m.chmod(ben, f, 0o666), syscall.EPERM, "chmod by another")
	m.must(m.chmod(ann, f, 0o111), "chmod")
	// A caller that may execute a file may read it (RFC 1813 §4.4). ACCESS reports only the rights
	// in the mode.
	if !blind {
		m.must(m.read(ben, f), "Read of 0111")
	}
	var a vfs.Attr
	got, err := m.fs.Access(as(ben), f, vfs.AccessRead|vfs.AccessExecute|vfs.AccessModify, &a)
	if err != nil || got != vfs.AccessExecute {
		m.t.Errorf("Access of 0111: %v, %v", got, err)
	}
	got, err = m.fs.Access(as(ann), f, vfs.AccessRead|vfs.AccessModify, &a)
	if err != nil || got != 0 {
		m.t.Errorf("Access of 0111 by the owner: %v, %v", got, err)
	}
	m.must(m.write(ann, f, "still"), "Write to 0111 by the owner")
	m.fs.Sweep(5)
	m.must(m.write(ann, f, "still"), "Write to 0111 by the owner, opened anew")
	if a := m.attr(f); a.Mode != 0o111 {
		m.t.Errorf("mode %o after opening", a.Mode)
	}

	_, err = m.fs.SetAttr(as(ann), f, &vfs.SetAttr{SetUID: true, UID: 1002}, nil)
	m.refused(err, syscall.EPERM, "chown by the owner")
	_, err = m.fs.SetAttr(as(ann), f, &vfs.SetAttr{SetGID: true, GID: 1002}, nil)
	m.refused(err, syscall.EPERM, "chgrp to a foreign group")
	_, err = m.fs.SetAttr(as(id(1001, 1001, 1002)), f, &vfs.SetAttr{SetGID: true, GID: 1002}, nil)
	m.must(err, "chgrp to a group of one's own")
	// SetAttr checks permission for all attributes first. So it sets none of these.
	_, err = m.fs.SetAttr(as(ann), f, &vfs.SetAttr{SetSize: true, SetUID: true, UID: 7}, nil)
	m.refused(err, syscall.EPERM, "truncate and chown")
	if a := m.attr(f); a.Size != 5 {
		m.t.Errorf("refused SetAttr left size %d", a.Size)
	}

	s = mode(0o1777)
	o, _, err = m.fs.Mkdir(as(self), m.fs.Root(), []byte("sticky"), &s)
	m.must(err, "Mkdir")
	if _, err = m.create(ann, o.Handle, "f", 0o600); err != nil {
		m.t.Fatal(err)
	}
	_, err = m.fs.Remove(as(ben), o.Handle, []byte("f"))
	m.refused(err, syscall.EPERM, "Remove of another's in a sticky directory")
	_, _, err = m.fs.Rename(as(ben), o.Handle, []byte("f"), all, []byte("g"))
	m.refused(err, syscall.EPERM, "Rename of another's out of a sticky directory")
	_, err = m.fs.Remove(as(ann), o.Handle, []byte("f"))
	m.must(err, "Remove")

	s = mode(0o700)
	o, _, err = m.fs.Mkdir(as(ann), all, []byte("private"), &s)
	m.must(err, "Mkdir")
	_, err = m.fs.ReadDir(as(ben), o.Handle, 0, false, &a, func(*vfs.DirEntry) bool { return true })
	m.refused(err, syscall.EACCES, "ReadDir")
	_, err = m.fs.ReadDir(as(ann), o.Handle, 0, true, &a, func(*vfs.DirEntry) bool { return true })
	m.must(err, "ReadDir")
	_, err = m.create(ann, o.Handle, "in", 0o600)
	if !blind {
		m.must(err, "Create in private")
		_, err = m.fs.Lookup(as(ben), o.Handle, []byte("in"), &a)
		m.refused(err, syscall.EACCES, "Lookup")
		_, err = m.fs.Lookup(as(ann), o.Handle, []byte("in"), &a)
		m.must(err, "Lookup")
	}

	if self.UID == 0 {
		_, err = m.fs.SetAttr(as(root), f, &vfs.SetAttr{SetUID: true, UID: 1002, SetGID: true, GID: 1003, SetMode: true, Mode: 0o6755}, nil)
		m.must(err, "chown by user 0")
		if a := m.attr(f); a.UID != 1002 || a.GID != 1003 || a.Mode != 0o6755 {
			m.t.Errorf("after chown and chmod by user 0: %d:%d %o", a.UID, a.GID, a.Mode)
		}
		m.must(m.write(id(0, 0, 1, 2), f, "x"), "Write by user 0 with groups")
	}
	if _, _, err = m.fs.Mknod(as(ann), all, []byte("dev"), vfs.CharDevice, &s, 1, 3); !errors.Is(err, syscall.EPERM) {
		m.t.Errorf("Mknod of a device by a user: %v", err)
	}
	_, _, err = m.fs.Mknod(as(ann), all, []byte("fifo"), vfs.FIFO, &s, 0, 0)
	m.must(err, "Mknod of a FIFO by a user")
}

// threads checks that after many concurrent callers each thread of the process has the daemon's
// user, groups and capabilities again.
func (m matrix) threads(self *vfs.Cred) {
	s := mode(0o777)
	o, _, err := m.fs.Mkdir(as(self), m.fs.Root(), []byte("threads"), &s)
	m.must(err, "Mkdir")
	want := threadIdentity(m.t, "/proc/self/status")
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for j := range 50 {
				c := id(uint32(2000+i), uint32(3000+j), uint32(4000+j), uint32(4001+i))
				name := fmt.Sprintf("f%d.%d", i, j)
				f, err := m.create(c, o.Handle, name, 0o600)
				if err != nil {
					m.t.Error(err)
					return
				}
				if a := m.attr(f); a.UID != c.UID || a.GID != c.GID {
					m.t.Errorf("made as %d:%d, not as %d:%d", a.UID, a.GID, c.UID, c.GID)
				}
				_, err = m.fs.Remove(as(id(9999, 9999)), o.Handle, []byte(name))
				if err != nil {
					m.t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	tasks, err := filepath.Glob("/proc/self/task/*/status")
	m.must(err, "threads")
	for _, task := range tasks {
		if got := threadIdentity(m.t, task); got != "" && got != want {
			m.t.Errorf("%s: %s\nwant %s", task, got, want)
		}
	}
	if st := m.fs.Stats(); st.Switches == 0 || st.ThreadsRetired != 0 {
		m.t.Errorf("%+v", st)
	}
}

// threadIdentity returns the lines about users, groups and capabilities in a thread's status file,
// or "" if the thread has ended.
func threadIdentity(t *testing.T, file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	var out []string
	for line := range strings.Lines(string(b)) {
		field, _, _ := strings.Cut(line, ":")
		if slices.Contains([]string{"Uid", "Gid", "Groups", "CapEff", "CapPrm"}, field) {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return strings.Join(out, "; ")
}
