package nfs3_test

import (
	"slices"
	"testing"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest"
)

// sized returns a CREATE that sets the size.
func sized(where wire.DirOpArgs3, size uint64) *wire.Create3Args {
	args := &wire.Create3Args{Where: where}
	args.How.ObjAttributes.Mode = wire.SetMode3{SetIt: true, Mode: 0o400}
	args.How.ObjAttributes.Size = wire.SetSize3{SetIt: true, Size: size}
	return args
}

// While a CREATE cuts a file that exists, the change is under way for the file: no hold is granted on it.
func TestCreateThatCutsIsAChangeOfTheFile(t *testing.T) {
	var h *heldSite
	var file *state.Hold
	granted, reached := false, false
	h = newHeldSite(t, func(fs vfs.FileSystem) vfs.FileSystem {
		return vfstest.Before(fs, func(_ *vfs.Op, method string) error {
			if method == "SetAttr" && file != nil {
				reached = true
				granted = h.state.Grant(file)
			}
			return nil
		})
	})
	file = h.hold(h.file, everyUse)
	h.state.Lift(file)
	var res wire.Create3Res
	h.call(wire.ProcCreate, sized(h.at(h.root, "f"), 0), &res)
	want(t, "CREATE", res.Status, wire.NFS3OK)
	if !reached || granted {
		t.Errorf("the file is cut: %v; beside a hold: %v", reached, granted)
	}
}

// CREATE sets the size of a file that it makes, whatever mode the file gets, and of one that it finds. The result has it.
func TestCreateSetsTheSize(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		for _, name := range []string{"new", "new", "empty"} {
			size := uint64(7)
			if name == "empty" {
				size = 0
			}
			var res wire.Create3Res
			s.call(wire.ProcCreate, sized(s.at(s.root, name), size), &res)
			want(t, "CREATE", res.Status, wire.NFS3OK)
			if a := res.ResOK.ObjAttributes; !a.AttributesFollow || a.Attributes.Size != size {
				t.Errorf("%s has the size %d in the result, want %d", name, a.Attributes.Size, size)
			}
		}
	})
}

// A SETATTR of the size and the mode is both kinds of access: a hold against either stops all of it.
func TestHoldStopsPartOfASetattr(t *testing.T) {
	for _, use := range []state.Use{state.UseWrite, state.UseAttributes} {
		h := newHeldSite(t, func(fs vfs.FileSystem) vfs.FileSystem { return fs })
		x := h.hold(h.file, state.UsesOf(use))
		args := wire.Setattr3Args{Object: h.file}
		args.NewAttributes.Size = wire.SetSize3{SetIt: true}
		args.NewAttributes.Mode = wire.SetMode3{SetIt: true, Mode: 0o600}
		var res wire.Setattr3Res
		h.reached = nil
		h.call(wire.ProcSetattr, &args, &res)
		want(t, "SETATTR during the hold", res.Status, wire.NFS3ErrJukebox)
		if slices.Contains(h.reached, "SetAttr") {
			t.Errorf("it reaches %v", h.reached)
		}
		h.state.Lift(x)
		h.call(wire.ProcSetattr, &args, &res)
		want(t, "SETATTR after it", res.Status, wire.NFS3OK)
	}
}
