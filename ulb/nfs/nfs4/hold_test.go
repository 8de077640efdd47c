package nfs4_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest"
)

// A heldSite is a site with a file in its directory. reached has the methods of the file system that were called.
type heldSite struct {
	*nfs4test.Site
	reached          []string
	file, other, dir []byte
}

// newHeldSite returns a site over a file system of which of is a wrapper.
func newHeldSite(t testing.TB, of func(fs vfs.FileSystem) vfs.FileSystem) *heldSite {
	h := &heldSite{}
	fs := vfstest.Before(memfs.New(memfs.Options{RootMode: 0o777}), func(_ *vfs.Op, method string) error {
		h.reached = append(h.reached, method)
		return nil
	})
	h.Site = openSiteOver(t, of(fs))
	f := newFiler(t, h.Site, 1)
	h.file, h.other = f.create("file", "owner", both, 0).fh, f.create("other", "owner", both, 0).fh
	var fh wire.GetFH4Res
	f.want(wire.NFS4OK, op(wire.OpPutRootFH), op(wire.OpGetFH)).Ops[1].Into(t, &fh)
	h.dir = bytes.Clone(fh.ResOK.Object)
	return h
}

// hold holds an object against every access.
func (h *heldSite) hold(t testing.TB, fh []byte) *state.Hold {
	o, err := h.Exports.Find(fh)
	if err != nil {
		t.Fatal(err)
	}
	x := &state.Hold{
		Key:   state.FileKey{Domain: state.DomainOf(o.Export.FS), Handle: o.Handle},
		Stops: ^state.Uses(0), Conflict: func(*state.Intent) state.Answer { return state.Repeat },
	}
	if !h.State.Grant(x) {
		t.Fatal("a change is still under way")
	}
	return x
}

// asking returns an operation of every kind that asks before it uses a file.
func asking() []nfs4test.Op {
	var any wire.StateID4
	size := fileSize(1)
	name := []byte("file")
	parent := wire.SecinfoStyle4(wire.SecinfoStyle4Parent)
	return []nfs4test.Op{
		{Number: wire.OpSecInfoNoName, Args: &parent},
		opLookup("file"), op(wire.OpLookupp), getattr(wire.Fattr4Size), accessOp(), op(wire.OpReadlink), secinfo("file"),
		{Number: wire.OpReaddir, Args: &wire.Readdir4Args{Dircount: 4096, Maxcount: 4096}},
		verify(wire.OpVerify, size), verify(wire.OpNverify, size), setattr(fileMode(0o600)), setattr(size),
		create(wire.NF4Dir, "new", wire.FAttr4{}), remove("file"), rename("file", "new"), link("new"),
		opRead(any, 0, 1), opWrite(any, 0, "x"), commitAll,
		opOpen(openArgs("file", "me", readable, 0)), opOpen(creating(openArgs("new", "me", readable, 0), wire.Unchecked4, fileMode(0o600))),
		opAllocate(any, 0, 1), opDeallocate(any, 0, 1), opSeek(any, 0, wire.NFS4ContentData), opReadPlus(any, 0, 1),
		{Number: wire.OpIOAdvise, Args: &wire.IOAdvise4Args{Count: 1}}, opCopy(any, any, 0, 8, 1), opClone(any, any, 0, 8, 1),
		{Number: wire.OpGetXattr, Args: &wire.GetXattr4Args{Name: name}}, {Number: wire.OpSetXattr, Args: &wire.SetXattr4Args{Key: name}},
		{Number: wire.OpListXattrs, Args: &wire.ListXattrs4Args{Maxcount: 4096}}, {Number: wire.OpRemoveXattr, Args: &wire.RemoveXattr4Args{Name: name}},
	}
}

// While a file and its directory are held against every access, no operation of any minor version reaches the file
// system, and the client is told to try again.
func TestNoOperationSlipsByAHold(t *testing.T) {
	for name, of := range map[string]func(fs vfs.FileSystem) vfs.FileSystem{
		"answering": func(fs vfs.FileSystem) vfs.FileSystem { return fs },
		"hesitant":  func(fs vfs.FileSystem) vfs.FileSystem { return vfstest.Hesitant(fs) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHeldSite(t, of)
			holds := []*state.Hold{h.hold(t, h.file), h.hold(t, h.other), h.hold(t, h.dir)}
			done := map[wire.OpNum]bool{}
			for minor := range uint32(3) {
				p := h.Peer(minor)
				for _, fh := range [][]byte{h.file, h.dir} {
					for _, o := range asking() {
						if !nfs4.Legal(o.Number, minor) {
							continue
						}
						done[o.Number] = true
						h.reached = nil
						first := fh
						if o.Number == wire.OpCopy { // which no file is both ends of
							first = h.other
						}
						r := p.Compound(putFH(first), op(wire.OpSaveFH), putFH(fh), o)
						if r.Status != wire.NFS4ErrDelay || len(r.Ops) != 4 {
							t.Errorf("%v of minor version %d: %v", o.Number, minor, statuses(r))
						}
						if len(h.reached) > 0 {
							t.Errorf("%v of minor version %d reaches %v", o.Number, minor, h.reached)
						}
					}
				}
			}
			for _, n := range nfs4.Asking() {
				if !done[n] {
					t.Errorf("%v asks, and is not tried here", n)
				}
			}
			for _, x := range holds {
				h.State.Lift(x)
			}
			newFiler(t, h.Site, 1).open(openArgs("file", "me", readable, 0))
			h.State.Lift(h.hold(t, h.file)) // no change is without an end
		})
	}
}

// While only a file is held, its names do not change, and a listing of its directory does not show its attributes.
func TestHoldOnAFileConcernsItsNames(t *testing.T) {
	h := newHeldSite(t, func(fs vfs.FileSystem) vfs.FileSystem { return fs })
	x := h.hold(t, h.file)
	list := func(attrs ...uint32) nfs4test.Op {
		return nfs4test.Op{Number: wire.OpReaddir, Args: &wire.Readdir4Args{Dircount: 4096, Maxcount: 4096, AttrRequest: wire.Bits(attrs...)}}
	}
	for minor := range uint32(3) {
		f := newFiler(t, h.Site, minor)
		for _, ops := range [][]nfs4test.Op{
			{putFH(h.dir), remove("file")},
			{putFH(h.dir), op(wire.OpSaveFH), rename("file", "new")},
			{putFH(h.file), op(wire.OpSaveFH), putFH(h.dir), link("new")},
			{putFH(h.dir), opLookup("file"), getattr(wire.Fattr4Size)},
			{putFH(h.dir), opOpen(openArgs("file", "another", readable, 0))},
			{putFH(h.dir), list(wire.Fattr4Size)},
		} {
			f.want(wire.NFS4ErrDelay, ops...)
		}
		f.want(wire.NFS4OK, putFH(h.dir), list(wire.Fattr4RdattrError, wire.Fattr4Size))
		f.want(wire.NFS4OK, putFH(h.dir), list())
		f.want(wire.NFS4OK, putFH(h.dir), opLookup("file"))
	}
	h.State.Lift(x)
	newFiler(t, h.Site, 1).want(wire.NFS4OK, putFH(h.dir), list(wire.Fattr4Size), remove("file"))
}

// A SETATTR of the size and the mode is both kinds of access: a hold against either stops all of it.
func TestHoldStopsPartOfASetattr(t *testing.T) {
	for _, use := range []state.Use{state.UseWrite, state.UseAttributes} {
		h := newHeldSite(t, func(fs vfs.FileSystem) vfs.FileSystem { return fs })
		x := h.hold(t, h.file)
		h.State.Lift(x)
		x.Stops = state.UsesOf(use)
		if !h.State.Grant(x) {
			t.Fatal("a change is still under way")
		}
		both := wire.FAttr4{}
		both.Attrmask = wire.Bits(wire.Fattr4Size, wire.Fattr4Mode)
		both.AttrVals = append(slices.Clone(fileSize(1).AttrVals), fileMode(0o600).AttrVals...)
		h.reached = nil
		newFiler(t, h.Site, 1).want(wire.NFS4ErrDelay, putFH(h.file), setattr(both))
		if len(h.reached) > 0 {
			t.Errorf("use %d is held, and SETATTR reaches %v", use, h.reached)
		}
		h.State.Lift(x)
		newFiler(t, h.Site, 1).want(wire.NFS4OK, putFH(h.file), setattr(both))
	}
}

// FuzzHold runs an operation with any arguments on a file or a directory, while both are held. No operation that asks
// reaches the file system.
func FuzzHold(f *testing.F) {
	h := newHeldSite(f, func(fs vfs.FileSystem) vfs.FileSystem { return fs })
	for i, o := range asking() {
		w := xdr.NewWriter(make([]byte, 0, 4096))
		if o.Args != nil {
			o.Args.Encode(w)
		}
		f.Add(uint32(o.Number), uint8(i), w.Bytes())
	}
	h.hold(f, h.file)
	h.hold(f, h.other)
	h.hold(f, h.dir)
	asks := map[wire.OpNum]bool{}
	for _, n := range nfs4.Asking() {
		asks[n] = true
	}
	var peers [3]*nfs4test.Peer
	for i := range peers {
		peers[i] = h.Peer(uint32(i))
	}
	f.Fuzz(func(t *testing.T, n uint32, which uint8, args []byte) {
		if !asks[wire.OpNum(n)] || len(args) > 4096 {
			return
		}
		p, fh := peers[which%3], h.file
		if which&64 != 0 {
			fh = h.dir
		}
		p.T, h.reached = t, nil
		p.Parse(p.End(p.Begin(p.Raw(func(w *xdr.Writer) {
			w.String("")
			w.Uint32(p.Minor)
			w.Uint32(3)
			w.Uint32(uint32(wire.OpPutFH))
			w.Opaque(fh)
			w.Uint32(uint32(wire.OpSaveFH))
			w.Uint32(n)
			w.FixedOpaque(args[:len(args)&^3])
		}))))
		if len(h.reached) > 0 {
			t.Error(fmt.Sprintf("%v of minor version %d reaches", wire.OpNum(n), p.Minor), h.reached)
		}
	})
}
