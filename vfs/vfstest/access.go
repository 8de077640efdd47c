package vfstest

import (
	"fmt"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

var accessTests = []Test{
	{"access/every mode and class", testAccessMatrix},
	{"access/superuser", testAccessRoot},
	{"access/operations agree", testOperationsAgree},
	{"access/the owner reads and writes", testOwnerOverride},
	{"access/who executes reads", testExecuteReads},
	{"access/only what was asked", testAccessAsked},
	{"access/attributes", testWhoSetsAttributes},
	{"access/sticky directories", testSticky},
	{"access/set-group-id directories", testSetGIDDirectories},
	{"access/set-id bits go", testSetIDGoes},
}

// User and group IDs in these tests.
const (
	aliceID, bobID, carolID = 1001, 1002, 1003
	staffID, crewID         = 2001, 2002
	guestsID                = 2009
)

const allAccess = vfs.AccessRead | vfs.AccessLookup | vfs.AccessModify | vfs.AccessExtend | vfs.AccessDelete | vfs.AccessExecute

// A class is a user and the user's relation to a file that user alice and group staff own, such as
// owner or group.
type class struct {
	name  string
	user  *user
	shift uint // position of the class's permission bits in a mode
}

func (x *fixture) classes() []class {
	return []class{
		{"owner", x.user(aliceID, guestsID), 6},
		{"owner in the group", x.user(aliceID, staffID), 6},
		{"group", x.user(bobID, staffID), 3},
		{"supplementary group", x.user(bobID, guestsID, 7, crewID, staffID, 9), 3},
		{"other", x.user(carolID, guestsID, 7, crewID), 0},
	}
}

// owned makes a file or a directory that user alice and group staff own.
func (x *fixture) owned(name string, dir bool) vfs.Handle {
	x.Helper()
	root := x.self
	var h vfs.Handle
	if dir {
		h = root.mkdir(x.dir, name, 0o777)
	} else {
		h = root.create(x.dir, name, 0o666)
	}
	x.ok(root.set(h, vfs.SetAttr{SetUID: true, UID: aliceID, SetGID: true, GID: staffID}), "chown")
	return h
}

func (u *user) access(h vfs.Handle) vfs.Access {
	u.x.Helper()
	var a vfs.Attr
	got, err := u.x.fs.Access(u.op, h, allAccess, &a)
	u.x.ok(err, "Access")
	return got
}

func testAccessMatrix(x *fixture) {
	x.users()
	file, dir := x.owned("f", false), x.owned("d", true)
	classes := x.classes()
	for mode := uint32(0); mode <= 0o777; mode++ {
		if mode%8 != mode/64 && mode%37 != 0 && mode&(mode-1) != 0 {
			continue // test only a sample of the modes
		}
		for _, h := range []vfs.Handle{file, dir} {
			x.ok(x.self.set(h, withMode(mode)), "chmod")
		}
		for _, c := range classes {
			bits := mode >> c.shift & 7
			r, w, e := bits&4 != 0, bits&2 != 0, bits&1 != 0
			got := c.user.access(file)
			for _, want := range []struct {
				right vfs.Access
				has   bool
			}{{vfs.AccessRead, r}, {vfs.AccessModify, w}, {vfs.AccessExtend, w}, {vfs.AccessExecute, e}, {vfs.AccessLookup, false}} {
				if got&want.right != 0 != want.has {
					x.Errorf("%s has %#x of a file of mode %o", c.name, got, mode)
				}
			}
			got = c.user.access(dir)
			bad := got&vfs.AccessRead != 0 != r || got&vfs.AccessLookup != 0 != e
			const change = vfs.AccessModify | vfs.AccessExtend | vfs.AccessDelete
			if w && e && got&change != change || !w && got&change != 0 {
				bad = true
			}
			if bad {
				x.Errorf("%s has %#x of a directory of mode %o", c.name, got, mode)
			}
		}
	}
}

func testAccessRoot(x *fixture) {
	x.users()
	file, dir := x.owned("f", false), x.owned("d", true)
	root := x.user(0, 0)
	for _, mode := range []uint32{0, 0o444, 0o010, 0o001, 0o777} {
		for _, h := range []vfs.Handle{file, dir} {
			x.ok(x.self.set(h, withMode(mode)), "chmod")
		}
		const rw = vfs.AccessRead | vfs.AccessModify | vfs.AccessExtend
		if got := root.access(file); got&rw != rw || got&vfs.AccessExecute != 0 != (mode&0o111 != 0) {
			x.Errorf("the superuser has %#x of a file of mode %o", got, mode)
		}
		const all = rw | vfs.AccessLookup | vfs.AccessDelete
		if got := root.access(dir); got&all != all {
			x.Errorf("the superuser has %#x of a directory of mode %o", got, mode)
		}
		_, err := root.read(file, 0, 1)
		x.is(err, "the superuser's Read", nil)
		x.is(root.write(file, 0, "x"), "the superuser's Write", nil)
		root.create(dir, "f", 0o600)
		x.is(root.remove(dir, "f"), "the superuser's Remove", nil)
	}
}

// Each operation succeeds or fails as the mode of the file or directory says. In addition, the
// owner of a file may read and write it, and a user that may execute it may read it (RFC 1813
// §4.4).
func testOperationsAgree(x *fixture) {
	x.users()
	file, dir := x.owned("f", false), x.owned("d", true)
	x.self.create(dir, "there", 0o666)
	classes := x.classes()
	for bits := uint32(0); bits <= 7; bits++ {
		for _, c := range classes {
			mode := bits << c.shift
			for _, h := range []vfs.Handle{file, dir} {
				x.ok(x.self.set(h, withMode(mode)), "chmod")
			}
			r, w, e := bits&4 != 0, bits&2 != 0, bits&1 != 0
			owner := c.shift == 6
			check := func(what string, err error, may bool) {
				x.Helper()
				if may {
					x.is(err, fmt.Sprintf("%s, by the %s, mode %o", what, c.name, mode), nil)
				} else {
					x.is(err, fmt.Sprintf("%s, by the %s, mode %o", what, c.name, mode), syscall.EACCES)
				}
			}
			_, err := c.user.read(file, 0, 1)
			check("Read", err, r || e || owner)
			check("Write", c.user.write(file, 0, "x"), w || owner)
			check("truncation", c.user.set(file, vfs.SetAttr{SetSize: true, Size: 5}), w || owner)
			_, err = c.user.find(dir, "there")
			check("Lookup", err, e)
			if !e {
				_, err = c.user.find(dir, "missing")
				check("Lookup of nothing", err, false)
			}
			_, _, err = c.user.list(dir, 0, 100, false)
			check("ReadDir", err, r)
			how := vfs.CreateHow{Mode: vfs.Guarded, Attr: withMode(0o600)}
			_, _, err = x.fs.Create(c.user.op, dir, []byte("new"), &how)
			check("Create", err, w && e)
			if err == nil {
				check("Rename", c.user.rename(dir, "new", dir, "newer"), true)
				check("Remove", c.user.remove(dir, "newer"), true)
			} else {
				check("Rename", c.user.rename(dir, "there", dir, "newer"), false)
				check("Remove", c.user.remove(dir, "there"), false)
			}
			s := withMode(0o700)
			_, _, err = x.fs.Mkdir(c.user.op, dir, []byte("sub"), &s)
			check("Mkdir", err, w && e)
			if err == nil {
				check("Rmdir", c.user.rmdir(dir, "sub"), true)
			}
			if x.info.Symlinks {
				_, _, err = x.fs.Symlink(c.user.op, dir, []byte("link"), []byte("text"), &vfs.SetAttr{})
				check("Symlink", err, w && e)
				if err == nil {
					check("Remove", c.user.remove(dir, "link"), true)
				}
			}
		}
	}
}

// The owner of a file may always read and write it, although Access does not report that (RFC 1813
// §4.4).
func testOwnerOverride(x *fixture) {
	x.users()
	alice, bob := x.user(aliceID, staffID), x.user(bobID, staffID)
	h := x.owned("f", false)
	for _, mode := range []uint32{0o444, 0, 0o077} {
		x.ok(x.self.set(h, withMode(mode)), "chmod")
		x.is(alice.write(h, 0, "content"), fmt.Sprintf("the owner's Write, mode %o", mode), nil)
		got, err := alice.read(h, 0, 7)
		if err != nil || got != "content" {
			x.Errorf("the owner's Read, mode %o: %q, %v", mode, got, err)
		}
		x.is(alice.set(h, vfs.SetAttr{SetSize: true, Size: 7}), fmt.Sprintf("the owner's truncation, mode %o", mode), nil)
		if got := alice.access(h); got&(vfs.AccessModify|vfs.AccessExtend) != 0 {
			x.Errorf("Access shows the owner %#x of mode %o", got, mode)
		}
	}
	x.ok(x.self.set(h, withMode(0o444)), "chmod")
	x.is(bob.write(h, 0, "x"), "the group's Write, mode 444", syscall.EACCES)
	// The rule covers data only: a directory whose mode gives its owner no permission stays closed
	// to the owner.
	d := x.owned("d", true)
	x.ok(x.self.set(d, withMode(0o077)), "chmod")
	_, err := alice.find(d, "x")
	x.is(err, "the owner's Lookup, mode 077", syscall.EACCES)
	_, _, err = alice.list(d, 0, 10, false)
	x.is(err, "the owner's ReadDir, mode 077", syscall.EACCES)
}

// A user that may execute a file may also read it, because a client reads a program to run it (RFC
// 1813 §4.4).
func testExecuteReads(x *fixture) {
	x.users()
	bob := x.user(bobID, guestsID)
	h := x.owned("program", false)
	x.ok(x.self.write(h, 0, "#!"), "Write")
	x.ok(x.self.set(h, withMode(0o111)), "chmod")
	got, err := bob.read(h, 0, 10)
	if err != nil || got != "#!" {
		x.Errorf("Read of a program of mode 111: %q, %v", got, err)
	}
	if got := bob.access(h); got != vfs.AccessExecute {
		x.Errorf("Access shows %#x of mode 111", got)
	}
	x.is(bob.write(h, 0, "x"), "Write to a program of mode 111", syscall.EACCES)
}

func testAccessAsked(x *fixture) {
	h := x.self.create(x.dir, "f", 0o777)
	for want := vfs.Access(1); want <= vfs.AccessExecute; want <<= 1 {
		var a vfs.Attr
		got, err := x.fs.Access(x.self.op, h, want, &a)
		if err != nil || got&^want != 0 {
			x.Errorf("asked for %#x, Access answered %#x, %v", want, got, err)
		}
		if a.FileID == 0 || a.Type != vfs.Regular {
			x.Errorf("Access's attributes: %+v", a)
		}
	}
	var a vfs.Attr
	if got, err := x.fs.Access(x.self.op, h, 0, &a); got != 0 || err != nil {
		x.Errorf("asked for nothing, Access answered %#x, %v", got, err)
	}
}

func testWhoSetsAttributes(x *fixture) {
	x.users()
	alice := x.user(aliceID, staffID, crewID)
	bob := x.user(bobID, staffID)
	h := x.owned("f", false)
	x.ok(x.self.set(h, withMode(0o664)), "chmod")
	day := vfs.Time{Sec: 1e9, Nsec: 0}
	denied := []error{syscall.EPERM}
	for _, c := range []struct {
		name string
		by   *user
		s    vfs.SetAttr
		want []error
	}{
		{"mode by another", bob, withMode(0o777), denied},
		{"owner by another", bob, vfs.SetAttr{SetUID: true, UID: bobID}, denied},
		{"owner by the owner", alice, vfs.SetAttr{SetUID: true, UID: bobID}, denied},
		{"the same owner by the owner", alice, vfs.SetAttr{SetUID: true, UID: aliceID}, nil},
		{"a strange group by the owner", alice, vfs.SetAttr{SetGID: true, GID: guestsID}, denied},
		{"group by another", bob, vfs.SetAttr{SetGID: true, GID: staffID}, denied},
		{"a group of hers by the owner", alice, vfs.SetAttr{SetGID: true, GID: crewID}, nil},
		{"the group back", alice, vfs.SetAttr{SetGID: true, GID: staffID}, nil},
		{"a time by another who may write", bob, vfs.SetAttr{MtimeHow: vfs.ClientTime, Mtime: day}, denied},
		{"now by another who may write", bob, vfs.SetAttr{AtimeHow: vfs.ServerTime, MtimeHow: vfs.ServerTime}, nil},
		{"a time by the owner", alice, vfs.SetAttr{MtimeHow: vfs.ClientTime, Mtime: day}, nil},
		{"now by another who may not", x.user(carolID, guestsID), vfs.SetAttr{AtimeHow: vfs.ServerTime, MtimeHow: vfs.ServerTime}, []error{syscall.EACCES, syscall.EPERM}},
		{"allowed and not allowed", alice, vfs.SetAttr{SetMode: true, Mode: 0o600, SetUID: true, UID: bobID}, denied},
		{"size and not allowed", bob, vfs.SetAttr{SetMode: true, Mode: 0o600, SetSize: true, Size: 99}, denied},
	} {
		if c.want == nil {
			c.want = []error{nil}
		}
		x.is(c.by.set(h, c.s), c.name, c.want...)
	}
	if a := x.self.attr(h); a.Mode != 0o664 || a.UID != aliceID || a.GID != staffID || a.Size != 0 {
		x.Errorf("in the end mode %o, owner %d, group %d, size %d", a.Mode, a.UID, a.GID, a.Size)
	}
}

func testSticky(x *fixture) {
	x.users()
	alice, bob, carol := x.user(aliceID, staffID), x.user(bobID, staffID), x.user(carolID, guestsID)
	d := carol.mkdir(x.dir, "tmp", 0o777)
	x.ok(carol.set(d, withMode(0o1777)), "chmod")
	if a := x.self.attr(d); a.Mode != 0o1777 {
		x.Fatalf("mode is %o, want 1777", a.Mode)
	}
	for _, n := range []string{"a", "b", "c"} {
		alice.create(d, n, 0o666)
	}
	alice.mkdir(d, "d", 0o777)
	bob.create(d, "bobs", 0o666)
	denied := []error{syscall.EPERM, syscall.EACCES}
	x.is(bob.remove(d, "a"), "Remove of another's file", denied...)
	x.is(bob.rmdir(d, "d"), "Rmdir of another's directory", denied...)
	x.is(bob.rename(d, "a", d, "z"), "Rename of another's file", denied...)
	x.is(bob.rename(d, "a", x.dir, "z"), "Rename out of another's file", denied...)
	x.is(bob.rename(d, "bobs", d, "a"), "Rename over another's file", denied...)
	x.is(bob.rename(d, "bobs", d, "bobs2"), "Rename of one's own file", nil)
	x.is(alice.remove(d, "a"), "Remove by the file's owner", nil)
	x.is(carol.remove(d, "b"), "Remove by the directory's owner", nil)
	x.is(x.user(0, 0).remove(d, "c"), "Remove by the superuser", nil)
	x.is(alice.rmdir(d, "d"), "Rmdir by its owner", nil)
}

func testSetGIDDirectories(x *fixture) {
	x.users()
	alice := x.user(aliceID, staffID)
	plain := x.owned("plain", true)
	x.ok(x.self.set(plain, vfs.SetAttr{SetMode: true, Mode: 0o777, SetGID: true, GID: guestsID}), "chmod, chgrp")
	if a := alice.attr(alice.create(plain, "f", 0o644)); a.UID != aliceID || a.GID != staffID {
		x.Errorf("a file in a plain directory is of %d:%d", a.UID, a.GID)
	}
	d := x.owned("d", true)
	x.ok(x.self.set(d, vfs.SetAttr{SetGID: true, GID: guestsID}), "chgrp")
	x.ok(x.self.set(d, withMode(0o2777)), "chmod")
	if a := alice.attr(alice.create(d, "f", 0o644)); a.UID != aliceID || a.GID != guestsID || a.Mode != 0o644 {
		x.Errorf("a file in a set-group-id directory is of %d:%d, mode %o", a.UID, a.GID, a.Mode)
	}
	if a := alice.attr(alice.mkdir(d, "sub", 0o755)); a.GID != guestsID || a.Mode != 0o2755 {
		x.Errorf("a directory in a set-group-id directory is of group %d, mode %o", a.GID, a.Mode)
	}
	if x.info.Symlinks {
		if a := alice.attr(alice.symlink(d, "link", "text")); a.GID != guestsID {
			x.Errorf("a symlink in a set-group-id directory is of group %d", a.GID)
		}
	}
}

func testSetIDGoes(x *fixture) {
	x.users()
	alice, bob := x.user(aliceID, staffID), x.user(bobID, guestsID)
	h := x.owned("f", false)
	x.ok(alice.write(h, 0, "content"), "Write")
	for name, change := range map[string]func() error{
		"Write by the owner":      func() error { return alice.write(h, 0, "x") },
		"Write by another":        func() error { return bob.write(h, 0, "x") },
		"truncation":              func() error { return bob.set(h, vfs.SetAttr{SetSize: true, Size: 3}) },
		"chown by the superuser":  func() error { return x.self.set(h, vfs.SetAttr{SetUID: true, UID: aliceID}) },
		"chgrp by the owner":      func() error { return alice.set(h, vfs.SetAttr{SetGID: true, GID: staffID}) },
		"truncation by Create":    func() error { return bob.truncate(x.dir, "f") },
		"Write of a synced piece": func() error { return bob.writeSync(h, "x") },
	} {
		x.ok(x.self.set(h, withMode(0o6777)), "chmod")
		if a := alice.attr(h); a.Mode != 0o6777 {
			x.Fatalf("mode is %o, want 6777", a.Mode)
		}
		x.is(change(), name, nil)
		if a := alice.attr(h); a.Mode != 0o777 {
			x.Errorf("after %s the mode is %o, want 777", name, a.Mode)
		}
	}
	// A chmod by a user that is not in the file's group clears the set-group-id bit, because the
	// user could otherwise make a program that runs with that group.
	x.ok(x.self.set(h, vfs.SetAttr{SetGID: true, GID: guestsID}), "chgrp")
	x.ok(alice.set(h, withMode(0o2755)), "chmod")
	if a := alice.attr(h); a.Mode != 0o755 {
		x.Errorf("after a chmod by who is not in the group the mode is %o, want 755", a.Mode)
	}
}

func (u *user) truncate(dir vfs.Handle, name string) error {
	how := vfs.CreateHow{Mode: vfs.Unchecked, Attr: vfs.SetAttr{SetSize: true}}
	_, _, err := u.x.fs.Create(u.op, dir, []byte(name), &how)
	return err
}

func (u *user) writeSync(h vfs.Handle, p string) error {
	_, _, _, err := u.x.fs.Write(u.op, h, 0, [][]byte{[]byte(p)}, vfs.FileSync)
	return err
}
