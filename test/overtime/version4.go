package overtime

import (
	"encoding/binary"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// version4 is the protocol NFSv4.0. It writes with the anonymous stateid.
type version4 struct{ *owner }

func (v version4) locking() (deed, bool) {
	if v.holds {
		return release, true
	}
	return acquire, true
}

func (version4) deeds(directories bool) []deed {
	if directories {
		return []deed{makeDir, makeDir, remove, remove, rename, lookup}
	}
	return []deed{create, create, link, remove, remove, rename, lookup}
}

// An operation is one operation of a compound, with a variable for its result.
type operation struct {
	number wire.OpNum
	args   interface{ Encode(w *xdr.Writer) }
	result interface{ Decode(d *xdr.Decoder) } // nil if the result is only a status
}

func compound(machine string, xid uint32, operations []operation) []byte {
	h := rpc.CallHeader{XID: xid, Program: wire.Program, Version: wire.Version, Procedure: wire.ProcCompound}
	return message(machine, h, func(w *xdr.Writer) {
		w.Uint32(0) // tag
		w.Uint32(0) // minor version
		w.Uint32(uint32(len(operations)))
		for _, o := range operations {
			w.Uint32(uint32(o.number))
			if o.args != nil {
				o.args.Encode(w)
			}
		}
	})
}

// results decodes the results of a compound and returns its status.
func results(d *xdr.Decoder, operations []operation) wire.NFSStat4 {
	s := wire.NFSStat4(d.Uint32())
	d.Opaque(xdr.NoLimit) // tag
	n := d.Uint32()
	for i := range min(int(n), len(operations)) {
		d.Uint32() // number of the operation
		if r := operations[i].result; r != nil {
			r.Decode(d)
		} else {
			d.Uint32()
		}
	}
	return s
}

func putFH(handle []byte) operation {
	return operation{number: wire.OpPutFH, args: &wire.PutFH4Args{Object: handle}}
}

// operations returns the operations of a call. When the results are decoded, handle has the file
// handle in them, and the function take returns the value in them. Each of the two is nil if the
// results have no such thing.
func (v version4) operations(a asked) (list []operation, handle *wire.GetFH4Res, take func() uint64) {
	name := func(n int) wire.UTF8String { return wire.UTF8String{'a' + byte(n)} }
	dir := func() operation { return putFH(v.directories[a.object]) }
	getFH := func() operation {
		handle = new(wire.GetFH4Res)
		return operation{wire.OpGetFH, nil, handle}
	}
	switch a.deed {
	case read:
		r := new(wire.Read4Res)
		take = func() uint64 { return register(r.ResOK.Data.Data) }
		list = []operation{putFH(v.blocks), {wire.OpRead, &wire.Read4Args{Offset: uint64(a.object) * block, Count: 8}, r}}
	case write:
		list = []operation{putFH(v.blocks), {wire.OpWrite, &wire.Write4Args{Offset: uint64(a.object) * block,
			Stable: wire.StableHow4(a.value % 3), Data: xdr.Eligible{Data: binary.BigEndian.AppendUint64(nil, a.value)}}, new(wire.Write4Res)}}
	case getSize:
		r := new(wire.Getattr4Res)
		take = func() uint64 {
			var attr client.Attributes4
			attr.Take(&r.ResOK.Attributes)
			return attr.Size
		}
		list = []operation{putFH(v.sizes[a.object]), {wire.OpGetattr, &wire.Getattr4Args{AttrRequest: wire.Bits(wire.Fattr4Size)}, r}}
	case setSize:
		list = []operation{putFH(v.sizes[a.object]), {wire.OpSetattr, &wire.Setattr4Args{ObjAttributes: client.SizeAttribute(a.value)}, new(wire.Setattr4Res)}}
	case lookup:
		list = []operation{dir(), {number: wire.OpLookup, args: &wire.Lookup4Args{Objname: name(a.name)}}, getFH()}
	case makeDir:
		list = []operation{dir(), {wire.OpCreate, &wire.Create4Args{Objtype: wire.Createtype4{Type: wire.NF4Dir}, Objname: name(a.name)}, new(wire.Create4Res)}, getFH()}
	case create:
		list = []operation{dir(), v.create(name(a.name)), getFH()}
	case acquire:
		list = []operation{putFH(v.target), v.acquire(&v.locked)}
	case release:
		list = []operation{putFH(v.target), v.release(&v.unlocked)}
	case remove:
		list = []operation{dir(), {wire.OpRemove, &wire.Remove4Args{Target: name(a.name)}, new(wire.Remove4Res)}}
	case rename:
		list = []operation{dir(), {number: wire.OpSaveFH}, {wire.OpRename, &wire.Rename4Args{Oldname: name(a.name), Newname: name(a.to)}, new(wire.Rename4Res)}}
	case link:
		list = []operation{putFH(v.target), {number: wire.OpSaveFH}, dir(), {wire.OpLink, &wire.Link4Args{Newname: name(a.name)}, new(wire.Link4Res)}}
	}
	return list, handle, take
}

func (v version4) call(xid uint32, a asked) []byte {
	list, _, _ := v.operations(a)
	return compound(v.machine, xid, list)
}

func (v version4) reply(d *xdr.Decoder, a asked) (t told, fh []byte) {
	list, handle, take := v.operations(a)
	s := results(d, list)
	switch a.deed {
	case create:
		v.opens++
	case acquire:
		v.acquired(s, &v.locked)
	case release:
		v.released(s, &v.unlocked)
	}
	switch s {
	case wire.NFS4OK:
		t.status = ok
		if handle != nil {
			fh = handle.ResOK.Object
		}
		if take != nil {
			t.value = take()
		}
	case wire.NFS4ErrExist:
		t.status = exists
	case wire.NFS4ErrNoEnt:
		t.status = absent
	case wire.NFS4ErrDenied:
		t.status = denied
	case wire.NFS4ErrDelay:
		t.status = later
	default:
		t.status, t.text = wrong, s.String()
	}
	return t, fh
}
