package nfs4suite

import (
	"bytes"
	"slices"

	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// content is the initial content of each file.
const content = "0123456789"

// objects are the objects, one of each type, that populate makes in the root.
var objects = []struct {
	name string
	kind wire.FType4
}{{"file", wire.NF4Reg}, {"dir", wire.NF4Dir}, {"link", wire.NF4Lnk}, {"fifo", wire.NF4Fifo}, {"socket", wire.NF4Sock}}

// populate makes an object of each type, and returns their file handles by name.
func (s *session) populate() map[string][]byte {
	s.t.Helper()
	all := map[string][]byte{}
	for _, o := range objects {
		if o.kind == wire.NF4Reg {
			all[o.name] = s.makeFile(o.name)
			continue
		}
		r := s.must("CREATE "+o.name, putRoot, create(o.kind, o.name), getFH)
		all[o.name] = s.handle(&r[2])
	}
	return all
}

func create(kind wire.FType4, name string) nfs4test.Op {
	args := &wire.Create4Args{Objtype: wire.Createtype4{Type: kind}, Objname: wire.UTF8String(name)}
	args.Objtype.Linkdata.Data = []byte("file")
	return op(wire.OpCreate, args)
}

// An opened is an open file.
type opened struct {
	wire.Open4ResOK
	fh []byte
}

const (
	read  = wire.Open4ShareAccessRead
	write = wire.Open4ShareAccessWrite
	both  = wire.Open4ShareAccessBoth
)

// openArgs returns the arguments of an OPEN of a name, without creation.
func openArgs(name, owner string, access, deny uint32) *wire.Open4Args {
	return &wire.Open4Args{
		ShareAccess: access, ShareDeny: deny, Owner: wire.StateOwner4{Owner: []byte(owner)},
		Claim: wire.OpenClaim4{Claim: wire.ClaimNull, File: wire.UTF8String(name)},
	}
}

// creating changes args so that OPEN creates the file.
func creating(args *wire.Open4Args, mode wire.Createmode4, attrs wire.FAttr4, verifier byte) *wire.Open4Args {
	how := &args.Openhow
	how.Opentype = wire.Open4Create
	how.How = wire.Createhow4{Mode: mode, Createattrs: attrs, Createverf: wire.Verifier4{verifier}}
	how.How.Createboth = wire.Creatverfattr{Verf: wire.Verifier4{verifier}, Attrs: attrs}
	return args
}

// claiming changes args so that OPEN uses this claim, for the current file handle.
func claiming(args *wire.Open4Args, claim wire.OpenClaimType4) *wire.Open4Args {
	args.Claim = wire.OpenClaim4{Claim: claim}
	return args
}

func open(args *wire.Open4Args) nfs4test.Op { return op(wire.OpOpen, args) }

// open opens a name in the root.
func (s *session) open(args *wire.Open4Args) opened {
	s.t.Helper()
	r := s.must("OPEN", putRoot, open(args), getFH)
	return opened{s.openRes(&r[1]), s.handle(&r[2])}
}

func (s *session) openRes(r *nfs4test.OpResult) wire.Open4ResOK {
	s.t.Helper()
	var res wire.Open4Res
	r.Into(s.t, &res)
	return res.ResOK
}

// refused makes an OPEN of a name in the root, which must fail with status.
func (s *session) refused(what string, status wire.NFSStat4, args *wire.Open4Args) {
	s.t.Helper()
	s.want(what, status, putRoot, open(args))
}

// makeFile makes a file with content in the root.
func (s *session) makeFile(name string) []byte {
	s.t.Helper()
	o := s.open(creating(openArgs(name, "maker", both, 0), wire.Unchecked4, attrs().size(0).mode(0o666).f, 0))
	s.must("WRITE", putFH(o.fh), writeOp(o.Stateid, 0, content), closeOp(o.Stateid))
	return o.fh
}

func (s *session) close(o *opened) {
	s.t.Helper()
	s.must("CLOSE", putFH(o.fh), closeOp(o.Stateid))
}

func readOp(id wire.StateID4, offset uint64, count uint32) nfs4test.Op {
	return op(wire.OpRead, &wire.Read4Args{Stateid: id, Offset: offset, Count: count})
}

func writeOp(id wire.StateID4, offset uint64, data string) nfs4test.Op {
	args := &wire.Write4Args{Stateid: id, Offset: offset, Stable: wire.FileSync4}
	args.Data.Data = []byte(data)
	return op(wire.OpWrite, args)
}

func closeOp(id wire.StateID4) nfs4test.Op {
	return op(wire.OpClose, &wire.Close4Args{OpenStateid: id})
}

func downgrade(id wire.StateID4, access, deny uint32) nfs4test.Op {
	return op(wire.OpOpenDowngrade, &wire.OpenDowngrade4Args{OpenStateid: id, ShareAccess: access, ShareDeny: deny})
}

func setattr(id wire.StateID4, a *values) nfs4test.Op {
	return op(wire.OpSetattr, &wire.Setattr4Args{Stateid: id, ObjAttributes: a.f})
}

func getattr(numbers ...uint32) nfs4test.Op {
	return op(wire.OpGetattr, &wire.Getattr4Args{AttrRequest: wire.Bits(numbers...)})
}

// seqid returns a stateid with another seqid.
func seqid(id wire.StateID4, n uint32) wire.StateID4 {
	id.Seqid = n
	return id
}

// The special stateids.
var (
	anonymous = state.Anonymous
	bypass    = state.Bypass
	current   = state.CurrentID
	invalid   = state.InvalidID
)

// values builds an attribute list. The caller adds attributes in the order of their numbers.
type values struct{ f wire.FAttr4 }

func attrs() *values { return &values{} }

func (v *values) put(number uint32, value raw) *values {
	v.f.Attrmask.Set(number)
	v.f.AttrVals = append(slices.Clone(v.f.AttrVals), value...)
	return v
}

func (v *values) size(n uint64) *values {
	return v.put(wire.Fattr4Size, words(uint32(n>>32), uint32(n)))
}

func (v *values) mode(n uint32) *values { return v.put(wire.Fattr4Mode, words(n)) }

// attribute returns the encoded value of one attribute of an object.
func (s *session) attribute(fh []byte, number uint32) raw {
	s.t.Helper()
	r := s.must("GETATTR", putFH(fh), getattr(number))
	var res wire.Getattr4Res
	r[1].Into(s.t, &res)
	if !res.ResOK.Attributes.Attrmask.Has(number) {
		s.t.Fatalf("attribute %d is missing", number)
	}
	return bytes.Clone(res.ResOK.Attributes.AttrVals)
}

// number returns the value of a numeric attribute.
func (s *session) number(fh []byte, attribute uint32) (n uint64) {
	s.t.Helper()
	for _, b := range s.attribute(fh, attribute) {
		n = n<<8 | uint64(b)
	}
	return n
}

// bytesOf returns the content of a file.
func (s *session) bytesOf(fh []byte) string {
	s.t.Helper()
	r := s.must("READ", putFH(fh), readOp(bypass, 0, 1<<15))
	var res wire.Read4Res
	r[1].Into(s.t, &res)
	return string(res.ResOK.Data.Data)
}
