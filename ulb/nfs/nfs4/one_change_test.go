package nfs4_test

import (
	"bytes"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// Clients of 4.1 and 4.2 append to a file with WRITE and GETATTR, while others read its
// attributes in every possible way. If a reply has the Change that a GETATTR after a WRITE
// returned, it does not have a smaller size than that GETATTR. A compound that begins after a
// reply does not return a smaller size than that reply. Change never decreases.
func TestCompoundsTellNoOldStateWithANewChange(t *testing.T) {
	for _, minor := range []uint32{1, 2} {
		t.Run(fmt.Sprint("4.", minor), func(t *testing.T) { appendBesideLooks(t, minor) })
	}
}

func appendBesideLooks(t *testing.T, minor uint32) {
	s := openSiteOver(t, directory(t))
	w := newFiler(t, s, minor)
	o := w.create("f", "writer", both, 0)
	root := w.want(wire.NFS4OK, op(wire.OpPutRootFH), op(wire.OpGetFH))
	var fh wire.GetFH4Res
	root.Ops[1].Into(t, &fh)
	dir := bytes.Clone(fh.ResOK.Object)
	ask := getattr(wire.Fattr4Change, wire.Fattr4Size)
	write := func(at uint64, stable wire.StableHow4) nfs4test.Op {
		args := &wire.Write4Args{Stateid: state.Anonymous, Offset: at, Stable: stable}
		args.Data.Data = []byte{1}
		return nfs4test.Op{Number: wire.OpWrite, Args: args}
	}
	// last returns what the GETATTR at the end of a compound returned.
	last := func(f *filer, ops ...nfs4test.Op) (size, change uint64) {
		return sizeAndChange(t, f.Compound(ops...))
	}
	access := nfs4test.Op{Number: wire.OpAccess, Args: &wire.Access4Args{Access: wire.Access4Read}}
	looks := map[string]func(f *filer) (size, change uint64){
		"GETATTR":              func(f *filer) (uint64, uint64) { return last(f, putFH(o.fh), ask) },
		"ACCESS, GETATTR":      func(f *filer) (uint64, uint64) { return last(f, putFH(o.fh), access, ask) },
		"READ, GETATTR":        func(f *filer) (uint64, uint64) { return last(f, putFH(o.fh), opRead(state.Anonymous, 0, 1), ask) },
		"LOOKUP, GETATTR":      func(f *filer) (uint64, uint64) { return last(f, putFH(dir), lookup("f"), ask) },
		"COMMIT, GETATTR":      func(f *filer) (uint64, uint64) { return last(f, putFH(o.fh), commitAll, ask) },
		"WRITE again, GETATTR": func(f *filer) (uint64, uint64) { return last(f, putFH(o.fh), write(0, wire.FileSync4), ask) },
		"LINK, GETATTR": func(f *filer) (uint64, uint64) {
			save, restore := op(wire.OpSaveFH), op(wire.OpRestoreFH)
			return last(f, putFH(o.fh), save, putFH(dir), link("l"), remove("l"), restore, ask)
		},
		"READDIR": func(f *filer) (size, change uint64) {
			r := f.want(wire.NFS4OK, putFH(dir), readdir(0, 8192, wire.Fattr4Change, wire.Fattr4Size))
			var res wire.Readdir4Res
			r.Ops[1].Into(t, &res)
			var e wire.Entry4
			for entries := res.ResOK.Reply.Entries; entries.Next(&e); {
				if string(e.Name) == "f" {
					d := xdr.NewDecoder(e.Attrs.AttrVals)
					change = d.Uint64()
					return d.Uint64(), change
				}
			}
			t.Error("the file is not listed")
			return 0, 0
		},
	}
	type seen struct {
		what                   string
		size, change, answered uint64
	}
	var answered atomic.Uint64
	var done atomic.Bool
	var lookers sync.WaitGroup
	found := make(chan []seen, len(looks))
	for what, look := range looks {
		f := newFiler(t, s, minor)
		lookers.Go(func() {
			var all []seen
			for !done.Load() && !t.Failed() {
				before := answered.Load()
				size, change := look(f)
				all = append(all, seen{what, size, change, before})
			}
			found <- all
		})
	}
	sizes := map[uint64]uint64{}
	for n := range uint64(1000) {
		size, change := last(w, putFH(o.fh), write(n, wire.Unstable4), ask)
		sizes[change] = max(size, sizes[change])
		answered.Store(size)
	}
	done.Store(true)
	lookers.Wait()
	close(found)
	for all := range found {
		highest := uint64(0)
		for _, a := range all {
			if size := sizes[a.change]; a.size < size {
				t.Fatalf("%s told Change %d with size %d; a WRITE made it %d", a.what, a.change, a.size, size)
			}
			if a.size < a.answered || a.change < highest {
				t.Fatalf("%s told size %d and Change %d; size %d and Change %d were told before", a.what, a.size, a.change, a.answered, highest)
			}
			highest = a.change
		}
	}
}
