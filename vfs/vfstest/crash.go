package vfstest

import (
	"fmt"
	"strings"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

var crashTests = []Test{
	{"crash/synced data stays", testCrashData},
	{"crash/names stay", testCrashNames},
	{"crash/the verifier tells", testCrashVerifier},
}

func testCrashData(x *fixture) {
	u := x.self
	if x.opt.Crash == nil {
		x.Skip("cannot be cut")
	}
	old, fresh := strings.Repeat("old", 20_000), strings.Repeat("new", 20_000)
	type file struct {
		h    vfs.Handle
		want string
	}
	var files []file
	for s := vfs.Unstable; s <= vfs.FileSync; s++ {
		h := u.create(x.dir, fmt.Sprint("f", s), 0o644)
		for _, text := range []string{old, fresh} {
			n, done, _, err := x.fs.Write(u.op, h, 0, [][]byte{[]byte(text)}, s)
			if err != nil || n != len(text) {
				x.Fatalf("Write: %d, %v", n, err)
			}
			if done < vfs.DataSync {
				x.ok(u.commit(h), "Commit")
			}
		}
		files = append(files, file{h, fresh})
	}
	// A COMMIT of a range is enough for the data in that range.
	h := u.create(x.dir, "range", 0o644)
	u.mustWrite(h, 0, old)
	x.ok(u.commit(h), "Commit")
	u.mustWrite(h, 0, fresh)
	_, err := x.fs.Commit(u.op, h, 0, uint32(len(fresh)))
	x.ok(err, "Commit of a range")
	files = append(files, file{h, fresh})
	// A truncation is a change of attributes, so it survives.
	h = u.create(x.dir, "cut", 0o644)
	u.mustWrite(h, 0, old)
	x.ok(u.commit(h), "Commit")
	x.ok(u.set(h, vfs.SetAttr{SetSize: true, Size: 4}), "truncation")
	x.ok(u.set(h, vfs.SetAttr{SetSize: true, Size: 6}), "truncation")
	files = append(files, file{h, "oldo\x00\x00"})
	x.restart(x.opt.Crash)
	for _, f := range files {
		u.content(f.h, f.want)
	}
}

func testCrashNames(x *fixture) {
	u := x.self
	if x.opt.Crash == nil {
		x.Skip("cannot be cut")
	}
	d := u.mkdir(x.dir, "d", 0o755)
	f := u.create(d, "f", 0o640)
	u.create(d, "removed", 0o644)
	moved := u.create(d, "moved", 0o644)
	x.ok(u.remove(d, "removed"), "Remove")
	x.ok(u.rename(d, "moved", x.dir, "there"), "Rename")
	if x.info.HardLinks {
		x.ok(u.link(f, x.dir, "linked"), "Link")
	}
	x.restart(x.opt.Crash)
	if u.lookup(d, "f").Handle != f || u.lookup(x.dir, "there").Handle != moved {
		x.Errorf("after a crash names lead elsewhere")
	}
	for _, n := range []string{"removed", "moved"} {
		_, err := u.find(d, n)
		x.is(err, "Lookup of what was removed", syscall.ENOENT)
	}
	if x.info.HardLinks && u.lookup(x.dir, "linked").Handle != f {
		x.Errorf("after a crash a link is gone")
	}
}

// After a crash, data whose stability was promised is there. Unstable data is there, or the
// verifier has changed.
func testCrashVerifier(x *fixture) {
	u := x.self
	if x.opt.Crash == nil {
		x.Skip("cannot be cut")
	}
	h := u.create(x.dir, "f", 0o644)
	u.mustWrite(h, 0, "old")
	x.ok(u.commit(h), "Commit")
	before := x.raw.Verifier()
	n, done, _, err := x.fs.Write(u.op, h, 0, [][]byte{[]byte("new and longer")}, vfs.Unstable)
	x.ok(err, "Write")
	x.restart(x.opt.Crash)
	got, err := u.read(h, 0, 100)
	x.ok(err, "Read")
	if got != "new and longer"[:n] && (done > vfs.Unstable || x.raw.Verifier() == before) {
		x.Errorf("a write of stability %d is gone, the verifier was %x, is %x", done, before, x.raw.Verifier())
	}
}
