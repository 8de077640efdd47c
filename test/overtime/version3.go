package overtime

import (
	"encoding/binary"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// version3 is the protocol NFSv3.
type version3 struct{ *objects }

func (version3) prepare(uint64, func(func(uint32) []byte) []byte) error { return nil }
func (version3) locking() (deed, bool)                                  { return 0, false }

func (version3) deeds(directories bool) []deed {
	if directories {
		return []deed{makeDir, makeDir, remove, remove, rename, lookup}
	}
	return []deed{create, create, exclude, makeFile, remove, remove, rename, link, lookup}
}

// holdsDirectories reports whether the directory with this number has only directories in it.
func holdsDirectories(object int) bool { return object%2 == 1 }

func (v version3) call(xid uint32, a asked) []byte {
	file := func(handle []byte) wire.FileHandle3 { return wire.FileHandle3{Data: handle} }
	entry := func(name int) wire.DirOpArgs3 {
		return wire.DirOpArgs3{Dir: file(v.directories[a.object]), Name: wire.Filename3{'a' + byte(name)}}
	}
	var p wire.Procedure
	var args interface{ Encode(w *xdr.Writer) }
	switch a.deed {
	case read:
		p, args = wire.ProcRead, &wire.Read3Args{FileHandle: file(v.blocks), Offset: uint64(a.object) * block, Count: 8}
	case write:
		p, args = wire.ProcWrite, &wire.Write3Args{FileHandle: file(v.blocks), Offset: uint64(a.object) * block, Count: 8,
			Stable: wire.StableHow(a.value % 3), Data: xdr.Eligible{Data: binary.BigEndian.AppendUint64(nil, a.value)}}
	case getSize:
		p, args = wire.ProcGetattr, &wire.Getattr3Args{Object: file(v.sizes[a.object])}
	case setSize:
		p, args = wire.ProcSetattr, &wire.Setattr3Args{Object: file(v.sizes[a.object]),
			NewAttributes: wire.Sattr3{Size: wire.SetSize3{SetIt: true, Size: a.value}}}
	case lookup:
		p, args = wire.ProcLookup, &wire.Lookup3Args{What: entry(a.name)}
	case create:
		p, args = wire.ProcCreate, &wire.Create3Args{Where: entry(a.name), How: wire.CreateHow3{Mode: wire.Guarded}}
	case makeFile:
		p, args = wire.ProcCreate, &wire.Create3Args{Where: entry(a.name), How: wire.CreateHow3{Mode: wire.Unchecked}}
	case exclude:
		how := wire.CreateHow3{Mode: wire.Exclusive}
		binary.BigEndian.PutUint64(how.Verf[:], a.value)
		p, args = wire.ProcCreate, &wire.Create3Args{Where: entry(a.name), How: how}
	case makeDir:
		p, args = wire.ProcMkdir, &wire.Mkdir3Args{Where: entry(a.name)}
	case remove:
		p, args = wire.ProcRemove, &wire.Remove3Args{Object: entry(a.name)}
		if holdsDirectories(a.object) {
			p = wire.ProcRmdir
		}
	case rename:
		p, args = wire.ProcRename, &wire.Rename3Args{From: entry(a.name), To: entry(a.to)}
	case link:
		p, args = wire.ProcLink, &wire.Link3Args{FileHandle: file(v.target), Link: entry(a.name)}
	}
	return message(v.machine, rpc.CallHeader{XID: xid, Program: wire.Program, Version: wire.Version, Procedure: uint32(p)}, args.Encode)
}

func (v version3) reply(d *xdr.Decoder, a asked) (t told, handle []byte) {
	var s wire.NFSStat3
	switch a.deed {
	case read:
		var r wire.Read3Res
		r.Decode(d)
		if s = r.Status; s == wire.NFS3OK {
			t.value = register(r.ResOK.Data.Data)
		}
	case write:
		var r wire.Write3Res
		r.Decode(d)
		s = r.Status
	case getSize:
		var r wire.Getattr3Res
		r.Decode(d)
		s, t.value = r.Status, r.ResOK.ObjAttributes.Size
	case setSize:
		var r wire.Setattr3Res
		r.Decode(d)
		s = r.Status
	case lookup:
		var r wire.Lookup3Res
		r.Decode(d)
		s, handle = r.Status, r.ResOK.Object.Data
	case create, makeFile, exclude:
		var r wire.Create3Res
		r.Decode(d)
		s, handle = r.Status, r.ResOK.Obj.Handle.Data
	case makeDir:
		var r wire.Mkdir3Res
		r.Decode(d)
		s, handle = r.Status, r.ResOK.Obj.Handle.Data
	case remove:
		var r wire.Remove3Res // RMDIR's result is the same
		r.Decode(d)
		s = r.Status
	case rename:
		var r wire.Rename3Res
		r.Decode(d)
		s = r.Status
	case link:
		var r wire.Link3Res
		r.Decode(d)
		s = r.Status
	}
	switch s {
	case wire.NFS3OK:
		t.status = ok
	case wire.NFS3ErrExist:
		t.status = exists
	case wire.NFS3ErrNoEnt:
		t.status = absent
	case wire.NFS3ErrJukebox:
		t.status = later
	default:
		t.status, t.text = wrong, s.String()
	}
	return t, handle
}

// register returns the value in a block, or 0 if the block was never written.
func register(b []byte) uint64 {
	var v [8]byte
	copy(v[:], b)
	return binary.BigEndian.Uint64(v[:])
}
