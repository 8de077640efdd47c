package local_test

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// protectedLinks reports whether this machine lets users link only their own files
// (fs.protected_hardlinks).
func protectedLinks() bool {
	b, err := os.ReadFile("/proc/sys/fs/protected_hardlinks")
	return err == nil && strings.TrimSpace(string(b)) != "0"
}

// links checks that a caller may link a file of another user, as POSIX requires. If this machine
// forbids that to its own users (protectedLinks), callers may do it only if LinksForOthers is
// true, and not with set-id programs. They always need the right to make names in the directory.
func (m matrix) links(self *vfs.Cred) {
	ann, ben := id(1001, 1001), id(1002, 1002)
	s := mode(0o777)
	o, _, err := m.fs.Mkdir(as(self), m.fs.Root(), []byte("links"), &s)
	m.must(err, "Mkdir")
	all := o.Handle
	s = mode(0o755)
	o, _, err = m.fs.Mkdir(as(ann), all, []byte("anns"), &s)
	m.must(err, "Mkdir")
	anns := o.Handle
	link := func(h, dir vfs.Handle, name string) error {
		var a vfs.Attr
		_, err := m.fs.Link(as(ben), h, dir, []byte(name), &a)
		return err
	}
	for _, c := range []struct {
		name    string
		bits    uint32
		program bool
	}{
		{"private", 0o600, false}, {"readable", 0o644, false}, {"none", 0, false},
		{"mark", 0o2644, false}, {"setuid", 0o4755, true}, {"setgid", 0o2755, true}, {"setuid without execution", 0o4644, true},
	} {
		f, err := m.create(ann, all, c.name, c.bits)
		m.must(err, "Create")
		refused := protectedLinks() && (c.program || !local.LinksForOthers())
		inAnothers := syscall.EACCES
		if refused {
			inAnothers = syscall.EPERM // the kernel checks fs.protected_hardlinks first
		}
		m.refused(link(f, anns, "l"), inAnothers, "Link in another's directory: "+c.name)
		err = link(f, all, c.name+" linked")
		if refused {
			m.refused(err, syscall.EPERM, "Link of another's file: "+c.name)
			continue
		}
		m.must(err, "Link of another's file: ", c.name)
		if a := m.attr(f); a.Nlink != 2 || a.UID != ann.UID || a.Mode != c.bits {
			m.t.Errorf("%s: %+v", c.name, a)
		}
	}
	// A link to a file does not change the rights on it.
	f, err := m.create(ann, all, "secret", 0o600)
	m.must(err, "Create")
	if link(f, all, "ben's") == nil {
		m.refused(m.read(ben, f), syscall.EACCES, "Read of a linked file")
		m.refused(m.chmod(ben, f, 0o666), syscall.EPERM, "chmod of a linked file")
	}
}

// For a daemon of user 0, LinksForOthers is true exactly if the daemon can switch users.
func TestLinksForOthers(t *testing.T) {
	if os.Geteuid() == 0 && local.CanSwitch() != local.LinksForOthers() {
		t.Errorf("user 0 links for others: %v", local.LinksForOthers())
	}
}

// If a file gets a new name while another name of it is removed, its handle stays valid, in
// whichever order the two calls run.
func TestFileThatIsLinkedWhileANameIsRemovedStays(t *testing.T) {
	eachScheme(t, func(t *testing.T, index bool) {
		w := newWorld(t, local.Config{IndexHandles: index})
		from, to := w.mkdir(w.fs.Root(), "from"), w.mkdir(w.fs.Root(), "to")
		both := 0
		for i := range 1000 {
			name := []byte(fmt.Sprint(i))
			f := w.create(from, string(name))
			var removed, linked error
			var wg sync.WaitGroup
			wg.Go(func() { _, removed = w.fs.Remove(w.op, from, name) })
			wg.Go(func() {
				var a vfs.Attr
				_, linked = w.fs.Link(w.op, f, to, name, &a)
			})
			wg.Wait()
			w.ok(removed, "Remove")
			w.fs.EvictAll()
			_, err := w.attr(f)
			if linked != nil {
				w.want(err, syscall.ESTALE, "GetAttr of a file without a name")
				continue
			}
			both++
			w.ok(err, "GetAttr of a file that has the name ", string(name))
		}
		t.Logf("%d of 1000 files were linked before their name was removed", both)
	})
}
