package nfs40_test

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// closedSite makes a server with two directories of user 0. "own", which contains "secret", is
// closed to other users. Other users can only read "plain". "file" is closed to other users too.
// The caller is user 7.
func closedSite(t testing.TB) (root, caller *peer) {
	t.Helper()
	root = newPeer(t)
	root.run(t, ok, putRootFH, create("own", wire.NF4Dir, mode(0o777)), saveFH, create("secret", wire.NF4Dir, mode(0o700)),
		restoreFH, setattr(anonymous, mode(0o700)))
	root.run(t, ok, putRootFH, create("plain", wire.NF4Dir, mode(0o755)), create("inner", wire.NF4Dir, mode(0o755)))
	root.run(t, ok, join(at("file"), setattr(anonymous, mode(0o600)))...)
	return root, root.as(7)
}

func TestUserWithoutPermissionIsRefused(t *testing.T) {
	chown := attrs(text("7"), wire.Fattr4Owner)
	times := attrs(func(w *xdr.Writer) { w.Uint32(1); w.Int64(1); w.Uint32(0) }, wire.Fattr4TimeModifySet)
	for _, c := range []struct {
		name string
		want status
		ops  []op
	}{
		{"LOOKUP", wire.NFS4ErrAccess, at("own", "secret")},
		{"LOOKUP of what is not there", wire.NFS4ErrAccess, at("own", "missing")},
		{"SECINFO", wire.NFS4ErrAccess, join(at("own"), secinfo("secret"))},
		{"READDIR", wire.NFS4ErrAccess, join(at("own"), readdir(0, wire.Verifier4{}, 4096))},
		{"CREATE", wire.NFS4ErrAccess, join(at("plain"), create("new", wire.NF4Dir, mode(0o755)))},
		{"REMOVE", wire.NFS4ErrAccess, join(at("plain"), remove("inner"))},
		{"RENAME from", wire.NFS4ErrAccess, join(at("plain"), saveFH, putRootFH, rename("inner", "new"))},
		{"RENAME to", wire.NFS4ErrAccess, []op{putRootFH, saveFH, lookup("plain"), rename("empty", "new")}},
		{"LINK", wire.NFS4ErrAccess, join(at("link"), saveFH, putRootFH, lookup("plain"), link("new"))},
		{"READ", wire.NFS4ErrAccess, join(at("file"), read(anonymous, 0, 1))},
		{"WRITE", wire.NFS4ErrAccess, join(at("file"), write(anonymous, 0, "x"))},
		{"SETATTR of the size", wire.NFS4ErrAccess, join(at("file"), setattr(anonymous, size(0)))},
		{"SETATTR of the mode", wire.NFS4ErrPerm, join(at("file"), setattr(anonymous, mode(0o777)))},
		{"SETATTR of the owner", wire.NFS4ErrPerm, join(at("file"), setattr(anonymous, chown))},
		{"SETATTR of a time", wire.NFS4ErrPerm, join(at("file"), setattr(anonymous, times))},
		{"GETATTR", ok, join(at("file"), getattr(wire.Fattr4Mode))},
		{"READLINK", ok, join(at("link"), readlink)},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, p := closedSite(t)
			p.run(t, c.want, c.ops...)
		})
	}
}

// If a caller wants to create an object with another user as owner, the server refuses the call, or
// the result shows that the owner was not set (RFC 7530 §16.4.4).
func TestCreateSetsNoOtherOwner(t *testing.T) {
	_, p := closedSite(t)
	r := p.oneOf(t, []status{ok, wire.NFS4ErrPerm}, join(at("dir"), create("new", wire.NF4Dir, attrs(text("9"), wire.Fattr4Owner)))...)
	var res wire.Create4Res
	if last(t, r, &res); r.Status == ok && res.ResOK.Attrset.Has(wire.Fattr4Owner) {
		t.Error("the owner was set")
	}
	o := p.client(t, "c").owner("o")
	r = o.oneOf(t, []status{ok, wire.NFS4ErrPerm}, join(at("dir"),
		o.openHow("file", bothMode, denyNone, creating(wire.Guarded4, attrs(text("9"), wire.Fattr4Owner))))...)
	if r.Status == ok {
		if set := opened(t, r, len(r.Ops)-1).Attrset; set.Has(wire.Fattr4Owner) {
			t.Error("the owner of a file was set")
		}
	}
}

func TestOpensThatOthersMayNot(t *testing.T) {
	_, p := closedSite(t)
	o := p.client(t, "c").owner("o")
	for _, access := range []uint32{readMode, writeMode, bothMode} {
		o.run(t, wire.NFS4ErrAccess, putRootFH, o.open("file", access, denyNone))
	}
	o.run(t, wire.NFS4ErrAccess, join(at("own"), o.open("secret", readMode, denyNone))...)
	o.run(t, wire.NFS4ErrAccess, join(at("plain"), o.openHow("new", bothMode, denyNone, creating(wire.Unchecked4, mode(0o644))))...)
	// A caller that creates a file may use it whatever its mode is.
	id := o.opensHow(t, "mine", bothMode, denyNone, creating(wire.Guarded4, mode(0)))
	o.run(t, ok, join(at("mine"), write(id, 0, "x"), read(id, 0, 1))...)
}

// A user that has permission for the file may use another user's stateid. A user without permission
// gains none by the stateid.
func TestStateIDOfAnotherUserGivesNoRights(t *testing.T) {
	root, p := closedSite(t)
	o := root.client(t, "c").owner("o")
	id := o.opens(t, "file", bothMode, denyNone)
	root.run(t, ok, join(at("file"), read(id, 0, 1))...)
	p.oneOf(t, []status{ok, wire.NFS4ErrAccess}, join(at("file"), read(id, 0, 1))...)
}

// On a read-only export, each operation that changes something gets NFS4ERR_ROFS.
func TestReadOnlyExport(t *testing.T) {
	for name, ops := range map[string][]op{
		"CREATE":  {putRootFH, create("new", wire.NF4Dir, mode(0o755))},
		"REMOVE":  {putRootFH, remove("file")},
		"RENAME":  {putRootFH, saveFH, rename("file", "new")},
		"LINK":    join(at("file"), saveFH, putRootFH, link("new")),
		"WRITE":   join(at("file"), write(anonymous, 0, "x")),
		"SETATTR": join(at("file"), setattr(anonymous, mode(0o755))),
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t)
			p.Exports.Root().ReadOnly = true
			p.run(t, wire.NFS4ErrROFS, ops...)
		})
	}
	p := newPeer(t)
	p.Exports.Root().ReadOnly = true
	p.run(t, ok, join(at("file"), read(anonymous, 0, 1), getattr(wire.Fattr4Size))...)
	o := p.client(t, "c").owner("o")
	o.run(t, wire.NFS4ErrROFS, putRootFH, o.open("file", writeMode, denyNone))
	o.run(t, wire.NFS4ErrROFS, putRootFH, o.open("file", bothMode, denyNone))
	o.run(t, wire.NFS4ErrROFS, putRootFH, o.openHow("new", readMode, denyNone, creating(wire.Unchecked4, mode(0o644))))
	o.opens(t, "file", readMode, denyNone)
}
