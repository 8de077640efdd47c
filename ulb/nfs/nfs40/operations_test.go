package nfs40_test

import (
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// Operations without arguments.
var (
	getFH     = op{Number: wire.OpGetFH}
	lookupp   = op{Number: wire.OpLookupp}
	putRootFH = op{Number: wire.OpPutRootFH}
	putPubFH  = op{Number: wire.OpPutPubFH}
	readlink  = op{Number: wire.OpReadlink}
	restoreFH = op{Number: wire.OpRestoreFH}
	saveFH    = op{Number: wire.OpSaveFH}
)

// Special stateids (RFC 7530 §9.1.4.3).
var (
	anonymous = wire.StateID4{}
	bypass    = wire.StateID4{Seqid: 0xffffffff, Other: [12]byte{
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
	}}
)

// at returns the operations that lead to a path below the root.
func at(path ...string) []op {
	ops := []op{putRootFH}
	for _, name := range path {
		ops = append(ops, lookup(name))
	}
	return ops
}

func putFH(h []byte) op { return op{Number: wire.OpPutFH, Args: &wire.PutFH4Args{Object: h}} }

func lookup(name string) op {
	return op{Number: wire.OpLookup, Args: &wire.Lookup4Args{Objname: wire.UTF8String(name)}}
}

func access(bits uint32) op {
	return op{Number: wire.OpAccess, Args: &wire.Access4Args{Access: bits}}
}

func commit(offset uint64, count uint32) op {
	return op{Number: wire.OpCommit, Args: &wire.Commit4Args{Offset: offset, Count: count}}
}

func remove(name string) op {
	return op{Number: wire.OpRemove, Args: &wire.Remove4Args{Target: wire.UTF8String(name)}}
}

func rename(from, to string) op {
	return op{Number: wire.OpRename, Args: &wire.Rename4Args{Oldname: wire.UTF8String(from), Newname: wire.UTF8String(to)}}
}

func link(name string) op {
	return op{Number: wire.OpLink, Args: &wire.Link4Args{Newname: wire.UTF8String(name)}}
}

func secinfo(name string) op {
	return op{Number: wire.OpSecInfo, Args: &wire.SecInfo4Args{Name: wire.UTF8String(name)}}
}

func openattr(create bool) op {
	return op{Number: wire.OpOpenattr, Args: &wire.Openattr4Args{Createdir: create}}
}

func read(id wire.StateID4, offset uint64, count uint32) op {
	return op{Number: wire.OpRead, Args: &wire.Read4Args{Stateid: id, Offset: offset, Count: count}}
}

func write(id wire.StateID4, offset uint64, data string) op {
	return op{Number: wire.OpWrite, Args: &wire.Write4Args{
		Stateid: id, Offset: offset, Stable: wire.FileSync4, Data: xdr.Eligible{Data: []byte(data)},
	}}
}

func getattr(bits ...uint32) op {
	return op{Number: wire.OpGetattr, Args: &wire.Getattr4Args{AttrRequest: wire.Bits(bits...)}}
}

func setattr(id wire.StateID4, a wire.FAttr4) op {
	return op{Number: wire.OpSetattr, Args: &wire.Setattr4Args{Stateid: id, ObjAttributes: a}}
}

func verify(a wire.FAttr4) op {
	return op{Number: wire.OpVerify, Args: &wire.Verify4Args{Attributes: a}}
}

func nverify(a wire.FAttr4) op {
	return op{Number: wire.OpNverify, Args: &wire.Nverify4Args{Attributes: a}}
}

func readdir(cookie uint64, verf wire.Verifier4, most uint32, bits ...uint32) op {
	return op{Number: wire.OpReaddir, Args: &wire.Readdir4Args{
		Cookie: cookie, Cookieverf: verf, Dircount: most, Maxcount: most, AttrRequest: wire.Bits(bits...),
	}}
}

func create(name string, kind wire.FType4, a wire.FAttr4) op {
	how := wire.Createtype4{Type: kind}
	switch kind {
	case wire.NF4Lnk:
		how.Linkdata.Data = []byte("text")
	case wire.NF4Blk, wire.NF4Chr:
		how.Devdata = wire.SpecData4{Specdata1: 1, Specdata2: 3}
	}
	return op{Number: wire.OpCreate, Args: &wire.Create4Args{Objtype: how, Objname: wire.UTF8String(name), Createattrs: a}}
}

// attrs returns a set of attributes. put writes their values, in order.
func attrs(put func(w *xdr.Writer), bits ...uint32) wire.FAttr4 {
	a := wire.FAttr4{Attrmask: wire.Bits(bits...)}
	if put != nil {
		w := xdr.NewWriter(make([]byte, 0, 4096))
		put(w)
		a.AttrVals = w.Bytes()
	}
	return a
}

func mode(m uint32) wire.FAttr4 {
	return attrs(func(w *xdr.Writer) { w.Uint32(m) }, wire.Fattr4Mode)
}

func size(n uint64) wire.FAttr4 {
	return attrs(func(w *xdr.Writer) { w.Uint64(n) }, wire.Fattr4Size)
}
