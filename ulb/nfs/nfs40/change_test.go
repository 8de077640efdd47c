package nfs40_test

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// changes returns the change attributes from the GETATTRs of a compound.
func changes(t *testing.T, r *nfs4test.Result) (all []uint64) {
	t.Helper()
	for i := range r.Ops {
		if r.Ops[i].Number == wire.OpGetattr {
			var res wire.Getattr4Res
			r.Ops[i].Into(t, &res)
			all = append(all, xdr.NewDecoder(res.ResOK.Attributes.AttrVals).Uint64())
		}
	}
	return all
}

// Each operation that changes an object changes its change attribute (RFC 7530 §5.8.1.4),
// also within one compound, and even if the new value equals the old one.
func TestChangeGoesOn(t *testing.T) {
	look := getattr(wire.Fattr4Change)
	now := attrs(u32(0), wire.Fattr4TimeModifySet)
	early := attrs(func(w *xdr.Writer) { w.Uint32(1); w.Int64(5); w.Uint32(5) }, wire.Fattr4TimeModifySet)
	root := attrs(text("0"), wire.Fattr4Owner)
	p := newPeer(t)
	goesOn := func(what string, ops ...op) {
		t.Helper()
		all := changes(t, p.run(t, ok, ops...))
		for i := range all[1:] {
			if all[i+1] <= all[i] {
				t.Errorf("%s: %d after %d, in step %d", what, all[i+1], all[i], i)
			}
		}
	}
	for _, kind := range kinds {
		ops := join(at(kind), look)
		for range 3 {
			ops = join(ops, setattr(anonymous, mode(0o700)), look, setattr(anonymous, root), look, setattr(anonymous, now), look, setattr(anonymous, early), look)
		}
		if kind == "link" { // the mode of a symbolic link cannot be set
			ops = join(at(kind), look, setattr(anonymous, early), look, setattr(anonymous, early), look)
		}
		goesOn(kind, ops...)
	}
	goesOn("a file's content", join(at("file"), look, write(anonymous, 0, "x"), look, write(anonymous, 0, "x"), look, setattr(anonymous, size(1)), look,
		setattr(anonymous, size(1)), look, setattr(anonymous, size(0)), look)...)
	goesOn("a file's names", join(at("file"), look, saveFH, putRootFH, link("second"), restoreFH, look, putRootFH, saveFH, rename("second", "third"),
		lookup("third"), look, putRootFH, remove("third"), lookup("file"), look)...)
	goesOn("a directory", join(at("empty"), look, create("a", wire.NF4Dir, mode(0o755)), lookupp, look, create("b", wire.NF4Fifo, mode(0o755)), putRootFH, lookup("empty"), look,
		saveFH, rename("b", "c"), look, remove("c"), look, remove("a"), look)...)
	// Operations that only read do not change the change attribute.
	quiet := func(what string, ops ...op) {
		t.Helper()
		if all := changes(t, p.run(t, ok, ops...)); all[0] != all[1] {
			t.Errorf("%s: %d became %d", what, all[0], all[1])
		}
	}
	quiet("a file", join(at("file"), look, access(0x3f), read(anonymous, 0, 10), commit(0, 0), getFH, look)...)
	quiet("a directory", join(at("dir"), look, saveFH, readdir(0, wire.Verifier4{}, 4096), lookup("inner"), restoreFH, lookupp, restoreFH, look)...)
}
