package vfstest

import (
	"errors"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

var lockMarkTests = []Test{
	{"access/set-gid without execution stays", testLockMarkStays},
}

// A set-group-id bit without group execution marks a file for mandatory locking; a program with
// this bit does not run with the file's group. The bit survives a change of the content or of the
// owner by the superuser or by a member of the group.
func testLockMarkStays(x *fixture) {
	member := x.self
	h := x.self.create(x.dir, "f", 0o666)
	if err := x.self.set(h, withMode(0o2666)); errors.Is(err, vfs.ErrNotSupported) {
		x.Skip("modes cannot be set")
	}
	changes := map[string]func() error{
		"Write":                func() error { return member.write(h, 0, "x") },
		"Write of what stays":  func() error { return member.writeSync(h, "x") },
		"truncation":           func() error { return member.set(h, vfs.SetAttr{SetSize: true, Size: 3}) },
		"truncation by Create": func() error { return member.truncate(x.dir, "f") },
	}
	stays := func(who string) {
		for name, change := range changes {
			for _, bits := range []uint32{0o2666, 0o2766, 0o6666} {
				if bits&0o4000 != 0 && who == "the superuser" {
					continue // in this case a file system may keep or clear set-uid
				}
				x.ok(x.self.set(h, withMode(bits)), "chmod")
				if a := x.self.attr(h); a.Mode != bits {
					x.Fatalf("mode is %o, want %o", a.Mode, bits)
				}
				x.is(change(), name, nil)
				if a := x.self.attr(h); a.Mode != bits&^0o4000 {
					x.Errorf("after %s by %s the mode is %o, want %o", name, who, a.Mode, bits&^0o4000)
				}
			}
		}
	}
	stays("the superuser")
	x.users()
	x.ok(x.self.set(h, vfs.SetAttr{SetUID: true, UID: bobID, SetGID: true, GID: staffID}), "chown")
	member = x.user(aliceID, guestsID, staffID)
	stays("a member of the group")
	member = x.user(aliceID, staffID)
	stays("a member whose group it is")

	member = x.self
	changes = map[string]func() error{
		"chown":           func() error { return member.set(h, vfs.SetAttr{SetUID: true, UID: aliceID}) },
		"chgrp":           func() error { return member.set(h, vfs.SetAttr{SetGID: true, GID: crewID}) },
		"chown and chgrp": func() error { return member.set(h, vfs.SetAttr{SetUID: true, UID: bobID, SetGID: true, GID: staffID}) },
	}
	stays("the superuser")
	member = x.user(aliceID, staffID, crewID)
	changes = map[string]func() error{"chgrp": func() error { return member.set(h, vfs.SetAttr{SetGID: true, GID: crewID}) }}
	x.ok(x.self.set(h, vfs.SetAttr{SetUID: true, UID: aliceID, SetGID: true, GID: staffID}), "chown")
	stays("the owner")
}
