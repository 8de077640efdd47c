package local_test

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// TestSetGIDWithAllCapabilities checks setGID and storageSetID in a process that has not dropped
// CAP_FSETID, such as a program that embeds the FS. TestCredentialsMatrix checks them in processes
// that dropped it.
func TestSetGIDWithAllCapabilities(t *testing.T) {
	others(t)
	if os.Geteuid() != 0 {
		t.Skip("takes user 0")
	}
	w := newWorld(t, local.Config{})
	matrix{t, w.fs, w.cfg.Root}.setGID()
	matrix{t, w.fs, w.cfg.Root}.storageSetID()
}

// storageSetID checks that the set-id bits of a file stay if user 0 allocates or frees its
// storage, or copies or clones to it. If other users do, the bits are cleared.
func (m matrix) storageSetID() {
	const bits, length = 0o6775, 1 << 16
	at := m.fs.Root()
	create := func(name string) vfs.Handle {
		o, _, err := m.fs.Create(as(id(0, 0)), at, []byte(name), &vfs.CreateHow{Attr: vfs.SetAttr{
			SetUID: true, UID: 1001, SetGID: true, GID: 2001, SetMode: true, Mode: 0o666,
		}})
		m.must(err, "Create")
		m.must(m.write(id(0, 0), o.Handle, string(make([]byte, length))), "Write")
		return o.Handle
	}
	from, to := create("storage.from"), create("storage.to")
	for who, c := range map[string]*vfs.Cred{"user 0": id(0, 0), "the owner": id(1001, 1001), "another": id(1002, 2001)} {
		open := func(h vfs.Handle, access vfs.OpenAccess) vfs.File {
			f, err := m.fs.Open(as(c), h, access)
			m.must(err, "Open by ", who)
			return f
		}
		m.must(m.chmod(id(0, 0), to, 0o777), "SetAttr")
		src, dst := open(from, vfs.OpenRead), open(to, vfs.OpenWrite)
		for what, do := range map[string]func() error{
			"Allocate":   func() error { return m.fs.Allocate(as(c), dst, 0, 2*length) },
			"Deallocate": func() error { return m.fs.Deallocate(as(c), dst, 0, length) },
			"CopyRange": func() error {
				_, err := m.fs.CopyRange(as(c), src, 0, dst, 0, length)
				return err
			},
			"CloneRange": func() error { return m.fs.CloneRange(as(c), src, 0, dst, 0, length) },
		} {
			m.must(m.chmod(id(0, 0), to, bits), "SetAttr")
			if got := m.attr(to).Mode; got != bits {
				m.t.Fatalf("the mode is %o", got)
			}
			err := do()
			if errors.Is(err, vfs.ErrNotSupported) {
				continue
			}
			m.must(err, what, " by ", who)
			want := uint32(bits)
			if c.UID != 0 {
				want = 0o775
			}
			if got := m.attr(to).Mode; got != want {
				m.t.Errorf("%s by %s: the mode became %o, want %o", what, who, got, want)
			}
		}
		src.Close()
		dst.Close()
	}
	for _, name := range []string{"storage.from", "storage.to"} {
		_, err := m.fs.Remove(as(id(0, 0)), at, []byte(name))
		m.must(err, "Remove")
	}
}

// setGID checks the set-gid bit without group execution, which marks a file for mandatory locking.
// It stays at a write, a truncation or a change of owner by user 0 or by a member of the file's
// group; for others it is cleared. Set-uid, and set-gid with group execution, are cleared for all.
func (m matrix) setGID() {
	const owner, group, second = 1001, 2001, 2002
	s := mode(0o777)
	dir, _, err := m.fs.Mkdir(as(id(0, 0)), m.fs.Root(), []byte("setgid"), &s)
	m.must(err, "Mkdir")
	callers := map[string]struct {
		cred   *vfs.Cred
		member bool
		owner  bool
	}{
		"user 0":                {id(0, 0), true, true},
		"user 0 with groups":    {id(0, 0, 5, 6), true, true},
		"the owner, a member":   {id(owner, 1001, group, second), true, true},
		"the owner, by its gid": {id(owner, group, second), true, true},
		"the owner, no member":  {id(owner, 1001, second), false, true},
		"another, a member":     {id(1003, 1003, group), true, false},
		"another, no member":    {id(1003, 1003), false, false},
	}
	changes := map[string]struct {
		do     func(c *vfs.Cred, h vfs.Handle) error
		owners bool // only user 0 and the owner may do this
		root   bool // only user 0 may do this
	}{
		"write": {do: func(c *vfs.Cred, h vfs.Handle) error {
			_, _, _, err := m.fs.Write(as(c), h, 0, [][]byte{[]byte("x")}, vfs.Unstable)
			return err
		}},
		"tried write": {do: func(c *vfs.Cred, h vfs.Handle) error {
			op := vfs.Op{Cred: c, Try: true}
			_, _, _, err := m.fs.Write(&op, h, 0, [][]byte{[]byte("x")}, vfs.Unstable)
			if err == vfs.ErrWouldBlock {
				_, _, _, err = m.fs.Write(as(c), h, 0, [][]byte{[]byte("x")}, vfs.Unstable)
			}
			return err
		}},
		"cut": {do: func(c *vfs.Cred, h vfs.Handle) error {
			_, err := m.fs.SetAttr(as(c), h, &vfs.SetAttr{SetSize: true}, nil)
			return err
		}},
		"chgrp": {owners: true, do: func(c *vfs.Cred, h vfs.Handle) error {
			_, err := m.fs.SetAttr(as(c), h, &vfs.SetAttr{SetGID: true, GID: second}, nil)
			return err
		}},
		"chown": {root: true, do: func(c *vfs.Cred, h vfs.Handle) error {
			_, err := m.fs.SetAttr(as(c), h, &vfs.SetAttr{SetUID: true, UID: 1009}, nil)
			return err
		}},
		"chown and chgrp": {root: true, do: func(c *vfs.Cred, h vfs.Handle) error {
			_, err := m.fs.SetAttr(as(c), h, &vfs.SetAttr{SetUID: true, UID: 1009, SetGID: true, GID: second}, nil)
			return err
		}},
	}
	for who, caller := range callers {
		for what, change := range changes {
			if change.owners && !caller.owner || change.root && caller.cred.UID != 0 {
				continue
			}
			for _, bits := range []uint32{0o2666, 0o2676, 0o4666, 0o6666, 0o6676, 0o0666, 0o2766} {
				o, _, err := m.fs.Create(as(id(0, 0)), dir.Handle, []byte("f"), &vfs.CreateHow{Mode: vfs.Guarded, Attr: vfs.SetAttr{
					SetUID: true, UID: owner, SetGID: true, GID: group, SetMode: true, Mode: bits,
				}})
				m.must(err, "Create")
				if o.Attr.Mode != bits {
					m.t.Fatalf("made with mode %o, not %o", o.Attr.Mode, bits)
				}
				want := bits &^ 0o4000
				if bits&0o010 != 0 || !caller.member {
					want &^= 0o2000
				}
				m.must(change.do(caller.cred, o.Handle), fmt.Sprintf("%s of %o by %s", what, bits, who))
				if got := m.attr(o.Handle).Mode; got != want {
					m.t.Errorf("%s by %s: mode %o became %o, want %o", what, who, bits, got, want)
				}
				_, err = m.fs.Remove(as(id(0, 0)), dir.Handle, []byte("f"))
				m.must(err, "Remove")
			}
		}
	}
	// If a SETATTR sets the group and the mode, the file gets exactly this mode.
	for _, bits := range []uint32{0o2666, 0o6755, 0o2755} {
		o, _, err := m.fs.Create(as(id(0, 0)), dir.Handle, []byte("f"), &vfs.CreateHow{Attr: mode(0o600)})
		m.must(err, "Create")
		_, err = m.fs.SetAttr(as(id(0, 0)), o.Handle, &vfs.SetAttr{SetGID: true, GID: group, SetMode: true, Mode: bits}, nil)
		m.must(err, "SetAttr")
		if got := m.attr(o.Handle).Mode; got != bits {
			m.t.Errorf("chgrp and chmod %o: mode %o", bits, got)
		}
		_, err = m.fs.Remove(as(id(0, 0)), dir.Handle, []byte("f"))
		m.must(err, "Remove")
	}
	// A directory keeps the bit, which has another meaning there.
	d, _, err := m.fs.Mkdir(as(id(0, 0)), dir.Handle, []byte("d"), &vfs.SetAttr{SetMode: true, Mode: 0o2755})
	m.must(err, "Mkdir")
	_, err = m.fs.SetAttr(as(id(0, 0)), d.Handle, &vfs.SetAttr{SetUID: true, UID: owner, SetGID: true, GID: group}, nil)
	m.must(err, "SetAttr")
	if got := m.attr(d.Handle).Mode; got != 0o2755 {
		m.t.Errorf("chown of a directory: mode %o", got)
	}
}
