package nfs3_test

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest"
)

// everyUse is all accesses.
const everyUse = ^state.Uses(0)

// heldSite is a site with a directory, which has a file "f". reached has the methods of the file system that a call has
// reached since the last one.
type heldSite struct {
	*site
	state   *state.Manager
	file    wire.FileHandle3
	reached []string
	answer  state.Answer
}

func newHeldSite(t testing.TB, of func(fs vfs.FileSystem) vfs.FileSystem) *heldSite {
	t.Helper()
	h := &heldSite{answer: state.Repeat}
	fs := memfs.New(memfs.Options{RootMode: 0o777})
	h.site = newSiteOver(t, fs, of(vfstest.Before(fs, func(_ *vfs.Op, method string) error {
		h.reached = append(h.reached, method)
		return nil
	})))
	var err error
	if h.state, err = state.New(state.Config{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.state.Close)
	h.program.Ask(h.state)
	h.file = h.create(h.root, "f", 0o666)
	h.create(h.root, "other", 0o666)
	return h
}

// hold holds an object against these accesses.
func (h *heldSite) hold(fh wire.FileHandle3, stops state.Uses) *state.Hold {
	h.t.Helper()
	o, err := h.table.Find(fh.Data)
	if err != nil {
		h.t.Fatal(err)
	}
	x := &state.Hold{
		Key:   state.FileKey{Domain: state.DomainOf(h.export.FS), Handle: o.Handle},
		Stops: stops, Conflict: func(*state.Intent) state.Answer { return h.answer },
	}
	if !h.state.Grant(x) {
		h.t.Fatal("a change is still under way")
	}
	return x
}

// While the file and its directory are held against every access, no procedure reaches the file system. The client is
// told to try again.
func TestNoProcedureSlipsByAHold(t *testing.T) {
	for _, m := range manners {
		t.Run(m.name, func(t *testing.T) {
			h := newHeldSite(t, m.of)
			holds := []*state.Hold{h.hold(h.file, everyUse), h.hold(h.root, everyUse)}
			for _, fh := range []wire.FileHandle3{h.file, h.root} {
				for p, c := range everyCall(fh, h.at(h.root, "f")) {
					h.reached = nil
					d, err := h.run(h.message(p, c.args)).Results()
					if err != nil {
						t.Fatalf("%v: %v", p, err)
					}
					if s := wire.NFSStat3(d.Int32()); s != wire.NFS3ErrJukebox {
						t.Errorf("%v: %v", p, s)
					}
					if len(h.reached) > 0 {
						t.Errorf("%v reaches %v", p, h.reached)
					}
				}
			}
			for _, x := range holds {
				h.state.Lift(x)
			}
			h.getattr(h.file)
			if !h.state.Grant(holds[0]) {
				t.Error("a change has no end")
			}
		})
	}
}

// FuzzHold makes calls about a file or a directory with any further arguments, while both are held. None reaches the file
// system.
func FuzzHold(f *testing.F) {
	h := newHeldSite(f, func(fs vfs.FileSystem) vfs.FileSystem { return fs })
	about := func(p wire.Procedure, fh wire.FileHandle3) []byte {
		return h.message(p, &wire.Getattr3Args{Object: fh})
	}
	head := len(about(wire.ProcGetattr, h.file))
	for p, c := range everyCall(h.file, h.at(h.root, "f")) {
		if m := h.message(p, c.args); len(m) >= head {
			f.Add(uint8(p), p%2 == 0, m[head:])
		}
	}
	h.hold(h.file, everyUse)
	h.hold(h.root, everyUse)
	f.Fuzz(func(t *testing.T, n uint8, dir bool, rest []byte) {
		p, fh := 1+wire.Procedure(n)%wire.ProcCommit, h.file
		if dir {
			fh = h.root
		}
		h.t, h.reached = t, nil
		if c := h.run(append(about(p, fh), rest...)); c.End == rpctest.Open {
			t.Fatal("no answer")
		}
		if len(h.reached) > 0 {
			t.Errorf("%v reaches %v", p, h.reached)
		}
	})
}

// While only the file is held, its names do not change, and no result in its directory shows its attributes.
func TestHoldOnAFileConcernsItsNames(t *testing.T) {
	for _, m := range manners {
		t.Run(m.name, func(t *testing.T) {
			h := newHeldSite(t, m.of)
			x := h.hold(h.file, everyUse)
			sized := wire.Create3Args{Where: h.at(h.root, "f")}
			sized.How.ObjAttributes.Size = wire.SetSize3{SetIt: true}
			for name, c := range map[string]struct {
				p    wire.Procedure
				args encoder
			}{
				"REMOVE":           {wire.ProcRemove, &wire.Remove3Args{Object: h.at(h.root, "f")}},
				"RENAME":           {wire.ProcRename, &wire.Rename3Args{From: h.at(h.root, "f"), To: h.at(h.root, "g")}},
				"RENAME over it":   {wire.ProcRename, &wire.Rename3Args{From: h.at(h.root, "other"), To: h.at(h.root, "f")}},
				"LINK":             {wire.ProcLink, &wire.Link3Args{FileHandle: h.file, Link: h.at(h.root, "g")}},
				"CREATE that cuts": {wire.ProcCreate, &sized},
			} {
				d, err := h.run(h.message(c.p, c.args)).Results()
				if err != nil {
					t.Fatal(err)
				}
				want(t, name, wire.NFSStat3(d.Int32()), wire.NFS3ErrJukebox)
			}
			var looked wire.Lookup3Res
			h.call(wire.ProcLookup, &wire.Lookup3Args{What: h.at(h.root, "f")}, &looked)
			want(t, "LOOKUP shows attributes", looked.ResOK.ObjAttributes.AttributesFollow, false)
			var listed wire.ReaddirPlus3Res
			h.call(wire.ProcReaddirPlus, &wire.ReaddirPlus3Args{Dir: h.root, DirCount: 4096, MaxCount: 4096}, &listed)
			var e wire.EntryPlus3
			for list := listed.ResOK.Reply.Entries; list.Next(&e); {
				if string(e.Name) == "f" {
					want(t, "READDIRPLUS shows attributes", e.NameAttributes.AttributesFollow, false)
				}
			}
			var made wire.Create3Res
			h.call(wire.ProcCreate, &wire.Create3Args{Where: h.at(h.root, "f")}, &made)
			want(t, "CREATE shows attributes", made.ResOK.ObjAttributes.AttributesFollow, false)
			h.state.Lift(x)
			h.call(wire.ProcLookup, &wire.Lookup3Args{What: h.at(h.root, "f")}, &looked)
			want(t, "LOOKUP shows attributes afterwards", looked.ResOK.ObjAttributes.AttributesFollow, true)
		})
	}
}
