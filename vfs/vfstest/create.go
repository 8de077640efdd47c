package vfstest

import (
	"strings"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

var createTests = []Test{
	{"create/guarded", testGuarded},
	{"create/unchecked", testUnchecked},
	{"create/exclusive", testExclusive},
	{"create/exclusive after a restart", testExclusiveRestart},
	{"create/attributes", testCreateAttributes},
	{"create/says what it made", testCreated},
	{"create/exclusive with attributes", testExclusiveAttributes},
	{"create/umask", testUmask},
	{"create/names", testCreateNames},
	{"create/mkdir", testMkdir},
}

// A guarded Create of a file that exists fails and leaves the file as it is (RFC 1813 §3.3.8).
func testGuarded(x *fixture) {
	u := x.self
	h := u.create(x.dir, "f", 0o644)
	u.mustWrite(h, 0, "content")
	_, _, err := x.fs.Create(u.op, x.dir, []byte("f"), &vfs.CreateHow{Mode: vfs.Guarded})
	x.is(err, "guarded Create of a file that exists", syscall.EEXIST)
	u.content(h, "content")
	if a := u.attr(h); a.Type != vfs.Regular || a.Nlink != 1 || a.Size != 7 {
		x.Errorf("attributes of the file: %+v", a)
	}
}

func testUnchecked(x *fixture) {
	u := x.self
	make := func(s vfs.SetAttr) vfs.Object {
		x.Helper()
		o, _, err := x.fs.Create(u.op, x.dir, []byte("f"), &vfs.CreateHow{Mode: vfs.Unchecked, Attr: s})
		x.ok(err, "unchecked Create")
		o.Handle = u.handle(x.dir, "f", o)
		return o
	}
	first := make(withMode(0o644))
	u.mustWrite(first.Handle, 0, "content")
	again := make(withMode(0o644))
	if again.Handle != first.Handle {
		x.Errorf("unchecked Create of a file that exists found another file")
	}
	u.content(first.Handle, "content")
	if again.HasAttr && again.Attr.Size != 7 {
		x.Errorf("size in the answer is %d, want 7", again.Attr.Size)
	}
	cut := make(vfs.SetAttr{SetSize: true})
	if a := u.attr(first.Handle); a.Size != 0 || cut.HasAttr && cut.Attr.Size != 0 {
		x.Errorf("unchecked Create with size 0 left %d bytes, answered %d", a.Size, cut.Attr.Size)
	}
	u.mkdir(x.dir, "d", 0o755)
	_, _, err := x.fs.Create(u.op, x.dir, []byte("d"), &vfs.CreateHow{Mode: vfs.Unchecked})
	x.is(err, "unchecked Create of a directory", syscall.EEXIST, syscall.EISDIR)
}

func (u *user) exclusive(dir vfs.Handle, name string, v byte) (vfs.Object, error) {
	o, _, err := u.x.fs.Create(u.op, dir, []byte(name), &vfs.CreateHow{
		Mode: vfs.Exclusive, Verifier: [8]byte{v, 2, 3, 0xff, 5, 6, 7, 0x80}})
	return o, err
}

func testExclusive(x *fixture) {
	if x.opt.NoExclusive {
		x.Skip("no exclusive creation")
	}
	u := x.self
	first, err := u.exclusive(x.dir, "f", 1)
	x.ok(err, "exclusive Create")
	h := u.handle(x.dir, "f", first)
	again, err := u.exclusive(x.dir, "f", 1)
	x.ok(err, "the same exclusive Create again")
	if got := u.handle(x.dir, "f", again); got != h {
		x.Errorf("the same exclusive Create again found another file")
	}
	_, err = u.exclusive(x.dir, "f", 2)
	x.is(err, "exclusive Create with another verifier", syscall.EEXIST)
	u.create(x.dir, "guarded", 0o644)
	_, err = u.exclusive(x.dir, "guarded", 1)
	x.is(err, "exclusive Create of a file made otherwise", syscall.EEXIST)
	u.mkdir(x.dir, "d", 0o755)
	_, err = u.exclusive(x.dir, "d", 1)
	x.is(err, "exclusive Create of a directory", syscall.EEXIST)
}

func testExclusiveRestart(x *fixture) {
	if x.opt.NoExclusive {
		x.Skip("no exclusive creation")
	}
	u := x.self
	first, err := u.exclusive(x.dir, "f", 1)
	x.ok(err, "exclusive Create")
	h := u.handle(x.dir, "f", first)
	x.restart(x.opt.Restart)
	again, err := u.exclusive(x.dir, "f", 1)
	x.ok(err, "the same exclusive Create after a restart")
	if got := u.handle(x.dir, "f", again); got != h {
		x.Errorf("the same exclusive Create after a restart found another file")
	}
	_, err = u.exclusive(x.dir, "f", 2)
	x.is(err, "exclusive Create with another verifier after a restart", syscall.EEXIST)
}

func testCreateAttributes(x *fixture) {
	u := x.self
	s := withMode(0o640)
	s.SetSize, s.Size = true, 100
	o, _, err := x.fs.Create(u.op, x.dir, []byte("f"), &vfs.CreateHow{Mode: vfs.Guarded, Attr: s})
	x.ok(err, "Create")
	a := u.attr(u.handle(x.dir, "f", o))
	if o.HasAttr && o.Attr != a {
		x.Errorf("Create answered\n%+v, GetAttr\n%+v", o.Attr, a)
	}
	if a.Size != 100 {
		x.Errorf("size is %d, want 100", a.Size)
	}
	if !x.opt.NoOwnership && (a.Mode != 0o640 || a.UID != u.op.Cred.UID) {
		x.Errorf("mode %o of user %d, want 640 of user %d", a.Mode, a.UID, u.op.Cred.UID)
	}
	b := u.attr(u.create(x.dir, "g", 0o600))
	if a.FileID == b.FileID || a.FSID != b.FSID {
		x.Errorf("file numbers %d, %d on %d, %d", a.FileID, b.FileID, a.FSID, b.FSID)
	}
}

// Object.Created is true for a new file and false for an existing one.
func testCreated(x *fixture) {
	u := x.self
	create := func(how vfs.CreateHow, want bool) vfs.Handle {
		x.Helper()
		o, _, err := x.fs.Create(u.op, x.dir, []byte("f"), &how)
		x.ok(err, "Create")
		if o.Created != want {
			x.Errorf("Create with mode %d says that it made the file: %v, want %v", how.Mode, o.Created, want)
		}
		return u.handle(x.dir, "f", o)
	}
	plain := vfs.CreateHow{Attr: withMode(0o644)}
	h := create(plain, true)
	u.mustWrite(h, 0, "content")
	create(plain, false)
	u.content(h, "content")
	// Of the requested attributes, an existing file gets only the size.
	create(vfs.CreateHow{Attr: withMode(0o600)}, false)
	if a := u.attr(h); !x.opt.NoOwnership && a.Mode != 0o644 {
		x.Errorf("an unchecked Create of a file that exists set mode %o", a.Mode)
	}
	u.content(h, "content")
	create(vfs.CreateHow{Attr: vfs.SetAttr{SetSize: true}}, false)
	u.content(h, "")
	x.ok(u.remove(x.dir, "f"), "Remove")
	create(vfs.CreateHow{Mode: vfs.Guarded, Attr: withMode(0o644)}, true)
	if x.opt.NoExclusive {
		return
	}
	x.ok(u.remove(x.dir, "f"), "Remove")
	exclusive := vfs.CreateHow{Mode: vfs.Exclusive, Verifier: [8]byte{1, 2, 3}}
	create(exclusive, true)
	create(exclusive, true) // a repeated exclusive Create reports the file as new, too
}

// An exclusive Create sets the requested attributes except times and size, also if it is repeated
// (RFC 8881 §18.16.3, EXCLUSIVE4_1).
func testExclusiveAttributes(x *fixture) {
	if x.opt.NoExclusive || x.opt.NoOwnership {
		x.Skip("no exclusive creation with attributes")
	}
	u := x.self
	how := vfs.CreateHow{Mode: vfs.Exclusive, Verifier: [8]byte{9, 2, 0xff, 4, 5, 0x80, 7, 8}, Attr: withMode(0o640)}
	how.Attr.SetSize = true
	how.Attr.MtimeHow, how.Attr.Mtime = vfs.ClientTime, vfs.Time{Sec: 1e9}
	wantUID, wantGID := u.op.Cred.UID, u.op.Cred.GID
	if x.opt.CanSwitchUsers {
		wantUID, wantGID = aliceID, staffID
		how.Attr.SetUID, how.Attr.UID, how.Attr.SetGID, how.Attr.GID = true, wantUID, true, wantGID
	}
	var first vfs.Handle
	for i := range 2 {
		o, _, err := x.fs.Create(u.op, x.dir, []byte("f"), &how)
		x.ok(err, "exclusive Create")
		h := u.handle(x.dir, "f", o)
		a := u.attr(h)
		if a.Mode != 0o640 || a.UID != wantUID || a.GID != wantGID || a.Size != 0 {
			x.Errorf("try %d: mode %o of %d:%d, %d bytes; want 640 of %d:%d", i, a.Mode, a.UID, a.GID, a.Size, wantUID, wantGID)
		}
		if o.HasAttr && (o.Attr.Mode != a.Mode || o.Attr.UID != a.UID) {
			x.Errorf("try %d answered %+v", i, o.Attr)
		}
		if i == 0 {
			first = h
		} else if h != first {
			x.Errorf("the same exclusive Create again found another file")
		}
	}
	how.Verifier[7]++
	_, _, err := x.fs.Create(u.op, x.dir, []byte("f"), &how)
	x.is(err, "exclusive Create with another verifier", syscall.EEXIST)
}

// A call that creates a file applies the umask in SetAttr (RFC 8275). No directory here has a
// default ACL.
func testUmask(x *fixture) {
	if x.opt.NoOwnership {
		x.Skip("modes need not be kept")
	}
	u := x.self
	s := withMode(0o4777)
	s.UseUmask, s.Umask = true, 0o7027
	makers := map[string]func(name string) (vfs.Object, error){
		"Create": func(name string) (vfs.Object, error) {
			o, _, err := x.fs.Create(u.op, x.dir, []byte(name), &vfs.CreateHow{Mode: vfs.Guarded, Attr: s})
			return o, err
		},
		"Mkdir": func(name string) (vfs.Object, error) {
			o, _, err := x.fs.Mkdir(u.op, x.dir, []byte(name), &s)
			return o, err
		},
	}
	if !x.opt.NoExclusive {
		makers["exclusive Create"] = func(name string) (vfs.Object, error) {
			o, _, err := x.fs.Create(u.op, x.dir, []byte(name), &vfs.CreateHow{Mode: vfs.Exclusive, Attr: s})
			return o, err
		}
	}
	if x.opt.SpecialFiles {
		makers["Mknod"] = func(name string) (vfs.Object, error) {
			o, _, err := x.fs.Mknod(u.op, x.dir, []byte(name), vfs.FIFO, &s, 0, 0)
			return o, err
		}
	}
	for name, make := range makers {
		o, err := make(name)
		x.ok(err, name)
		if a := u.attr(u.handle(x.dir, name, o)); a.Mode != 0o4750 {
			x.Errorf("%s with mode 4777 and umask 7027 made %o, want 4750", name, a.Mode)
		}
	}
	// SetAttr ignores a umask.
	h := u.create(x.dir, "f", 0o600)
	x.is(u.set(h, s), "SetAttr", nil)
	if a := u.attr(h); a.Mode != 0o4777 {
		x.Errorf("SetAttr with a umask made %o, want 4777", a.Mode)
	}
}

// badNames are invalid names: each call that looks up, makes or removes a name refuses them.
var badNames = []string{"", "a/b", "/", "a\x00b"}

func testCreateNames(x *fixture) {
	u := x.self
	long := strings.Repeat("n", int(x.info.MaxName))
	u.create(x.dir, long, 0o644)
	u.lookup(x.dir, long)
	odd := "\xff\xfe \t\n\\*"
	if _, _, err := x.fs.Create(u.op, x.dir, []byte(odd), &vfs.CreateHow{}); err == nil {
		if _, ok := u.names(x.dir)[odd]; !ok {
			x.Errorf("a name that is not text is not listed as it was made")
		}
	} else {
		x.is(err, "a name that is not text", syscall.EINVAL, syscall.EILSEQ)
	}
	file := u.create(x.dir, "file", 0o644)
	makers := map[string]func(name string) error{
		"Create": func(n string) error {
			_, _, err := x.fs.Create(u.op, x.dir, []byte(n), &vfs.CreateHow{Mode: vfs.Guarded})
			return err
		},
		"Mkdir": func(n string) error {
			_, _, err := x.fs.Mkdir(u.op, x.dir, []byte(n), &vfs.SetAttr{})
			return err
		},
	}
	if x.info.Symlinks {
		makers["Symlink"] = func(n string) error {
			_, _, err := x.fs.Symlink(u.op, x.dir, []byte(n), []byte("text"), &vfs.SetAttr{})
			return err
		}
	}
	if x.info.HardLinks {
		makers["Link"] = func(n string) error { return u.link(file, x.dir, n) }
	}
	if x.opt.SpecialFiles {
		makers["Mknod"] = func(n string) error {
			_, _, err := x.fs.Mknod(u.op, x.dir, []byte(n), vfs.FIFO, &vfs.SetAttr{}, 0, 0)
			return err
		}
	}
	for what, make := range makers {
		for _, n := range badNames {
			x.is(make(n), what+" "+n, syscall.EINVAL)
		}
		for _, n := range []string{".", ".."} {
			x.is(make(n), what+" "+n, syscall.EEXIST, syscall.EINVAL)
		}
		x.is(make(long+"n"), what+" of a long name", syscall.ENAMETOOLONG)
		x.is(make("file"), what+" of a name that exists", syscall.EEXIST)
	}
	_, _, err := x.fs.Create(u.op, file, []byte("f"), &vfs.CreateHow{Mode: vfs.Guarded})
	x.is(err, "Create in a file", syscall.ENOTDIR)
	_, _, err = x.fs.Mkdir(u.op, file, []byte("f"), &vfs.SetAttr{})
	x.is(err, "Mkdir in a file", syscall.ENOTDIR)
}

func testMkdir(x *fixture) {
	u := x.self
	before := u.attr(x.dir)
	h := u.mkdir(x.dir, "d", 0o750)
	a := u.attr(h)
	if a.Type != vfs.Directory || !x.opt.NoOwnership && a.Mode&0o777 != 0o750 {
		x.Errorf("made %v of mode %o", a.Type, a.Mode)
	}
	if after := u.attr(x.dir); before.Nlink > 1 && after.Nlink != before.Nlink+1 {
		x.Errorf("link count of the parent went from %d to %d", before.Nlink, after.Nlink)
	}
	if len(u.names(h)) != 0 {
		x.Errorf("a new directory is not empty")
	}
	x.is(u.rmdir(x.dir, "d"), "Rmdir", nil)
	if after := u.attr(x.dir); after.Nlink != before.Nlink {
		x.Errorf("link count of the parent was %d, now %d", before.Nlink, after.Nlink)
	}
	_, err := u.find(x.dir, "d")
	x.is(err, "Lookup of a removed directory", syscall.ENOENT)
}
