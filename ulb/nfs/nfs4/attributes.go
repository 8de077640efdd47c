package nfs4

import (
	"errors"
	"strconv"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/identity"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A need is a set of bits: the facts that must be looked up before an attribute can be
// encoded.
type need uint8

// The facts are: the object's attributes; the fixed properties of its file system; the space and
// files used in it; the file ID of the object that an export's root covers; the birth time; and the
// names of the owner and the group. needBirth, needOwner and needGroup have an effect only together
// with needAttr: facts.look looks up these facts with the object's attributes.
const (
	needAttr need = 1 << iota
	needInfo
	needUsage
	needCovered
	needBirth
	needOwner
	needGroup
)

// An attribute is one row of attributeTable (RFC 8881 §5.8, RFC 7530 §5.8, RFC 7862 §12).
type attribute struct {
	number uint32
	// since is the first minor version that has the attribute.
	since uint32
	need  need
	// most is the length of the longest value, in bytes. If skip is nil, all values are that
	// long. Otherwise skip steps over one value.
	most int
	skip func(d *xdr.Decoder)
	// fill encodes a value that is always most bytes long; get encodes a value of variable
	// length. If both are nil, the attribute can only be set.
	fill func(b []byte, f *facts)
	get  func(w *xdr.Writer, f *facts)
	// set decodes a value from a client. If it is nil, the attribute cannot be set.
	set func(d *xdr.Decoder, a *assignment)
}

// attributes holds the served attributes, indexed by number.
var attributes [96]*attribute

// rowOf holds each attribute's index in attributeTable, by attribute number.
var rowOf [96]uint8

// Sets of attributes.
var (
	// supported holds the attributes of each minor version, readable the attributes that a
	// client can get, and settable the attributes that it can set.
	supported          [3]wire.Bitmap4
	readable, settable wire.Bitmap4
	// ofObject holds the attributes that differ between the entries of a directory and are
	// not known from the entry's name.
	ofObject wire.Bitmap4
)

func init() {
	for i := range attributeTable {
		a := &attributeTable[i]
		attributes[a.number], rowOf[a.number] = a, uint8(i)
		for minor := a.since; minor < uint32(len(supported)); minor++ {
			supported[minor].Set(a.number)
		}
		if a.fill != nil || a.get != nil {
			readable.Set(a.number)
		}
		if a.set != nil {
			settable.Set(a.number)
		}
		if a.need&needAttr != 0 || a.number == wire.Fattr4Filehandle {
			ofObject.Set(a.number)
		}
	}
}

// A plan lists the steps that encode one set of attributes. It is made once and used for
// each object.
type plan struct {
	asked wire.Bitmap4
	minor uint32
	made  bool
	// The field or is the status of an operation that asks for these attributes: NFS4ERR_INVAL if
	// one of them can only be set, and NFS4_OK otherwise.
	or Status
	// set holds the asked attributes that the answer contains. needs is the set of facts
	// that must be looked up for them.
	set   wire.Bitmap4
	needs need
	// rows lists the attributes of set in ascending order. Its first n elements are used.
	rows [maxRows]planned
	n    int
}

// planned is an attribute of a plan.
type planned struct {
	row uint8 // index in attributeTable
	// run is the total length, in bytes, of the fixed-length values from this attribute up to
	// the next one of variable length. It is 0 if this attribute has a variable length.
	run uint16
}

// maxRows is the maximum number of attributes in a plan.
const maxRows = 56

// plans caches the plans that a pooled Compound used last, because clients request the same few
// sets of attributes again and again. The hash of a set determines which element holds its plan.
type plans [4]plan

// plan returns the plan for a set of attributes in the compound's minor version. It is valid
// until the next call of plan.
func (k *Compound) plan(asked *wire.Bitmap4) *plan {
	h := asked.Word(0)*0x9e3779b1 ^ asked.Word(1)*0x85ebca6b ^ asked.Word(2)
	p := &k.plans[h>>16%uint32(len(k.plans))]
	if !p.made || p.minor != k.Minor || p.asked != *asked {
		p.make(asked, k.Minor)
	}
	return p
}

func (p *plan) make(asked *wire.Bitmap4, minor uint32) {
	*p = plan{asked: *asked, minor: minor, made: true, set: asked.And(&supported[minor])}
	// A client may not ask for an attribute that can only be set (RFC 8881 §5.5).
	if unreadable := p.set.Without(&readable); !unreadable.IsEmpty() {
		p.or = wire.NFS4ErrInvalid
		p.set = p.set.And(&readable)
	}
	for i := range bitmapWords {
		for w := p.set.Word(i); w != 0; w &= w - 1 {
			row := rowOf[bit(i, w)]
			p.needs |= attributeTable[row].need
			p.rows[p.n].row = row
			p.n++
		}
	}
	run := uint16(0)
	for i := p.n - 1; i >= 0; i-- {
		if a := &attributeTable[p.rows[i].row]; a.fill != nil {
			run += uint16(a.most)
		} else {
			run = 0
		}
		p.rows[i].run = run
	}
}

// writeValues writes the values of the plan's attributes.
func (p *plan) writeValues(w *xdr.Writer, f *facts) {
	for i := 0; i < p.n; {
		if p.rows[i].run == 0 {
			attributeTable[p.rows[i].row].get(w, f)
			i++
			continue
		}
		b := w.Reserve(int(p.rows[i].run))
		if b == nil {
			return
		}
		for ; len(b) > 0; i++ {
			a := &attributeTable[p.rows[i].row]
			a.fill(b, f)
			b = b[a.most:]
		}
	}
}

// sendsNames reports whether the caller gets users and groups by name. A caller with
// RPCSEC_GSS does, because it is itself known by name. All callers do if the configuration
// says so. Other callers get the decimal digits of the numbers (RFC 7530 §5.9).
func (k *Compound) sendsNames() bool {
	p := k.Program
	return p.identity != nil && (p.sendNames || k.Call.Cred.Flavor == rpc.AuthGSS)
}

// names looks up the names of the owner and the group of f.attr, if n contains needOwner or
// needGroup and the caller gets names.
func (f *facts) names(n need) Status {
	k := f.k
	f.owner, f.group = f.owner[:0], f.group[:0]
	if n&(needOwner|needGroup) == 0 || !k.sendsNames() {
		return wire.NFS4OK
	}
	client := k.Call.Conn.Peer.Addr()
	var err error
	if n&needOwner != 0 {
		f.owner, err = k.Program.identity.Append(f.owner, client, identity.User, f.attr.UID, k.Op.Try)
	}
	if n&needGroup != 0 && err == nil {
		f.group, err = k.Program.identity.Append(f.group, client, identity.Group, f.attr.GID, k.Op.Try)
	}
	if err != nil {
		return k.Block(k.Program.identity)
	}
	return wire.NFS4OK
}

// putIdentity writes owner or owner_group (RFC 8881 §5.9): the name, or the decimal digits
// of the number if the name is empty.
func putIdentity(w *xdr.Writer, name []byte, id uint32) {
	if len(name) > 0 {
		w.Opaque(name)
		return
	}
	var b [10]byte
	w.Opaque(strconv.AppendUint(b[:0], uint64(id), 10))
}

// number returns the numeric ID of the owner or group that a client names.
func (a *assignment) number(kind identity.Kind, name []byte) uint32 {
	if len(name) == 0 { // an empty name is invalid; Linux's server answers the same
		a.fail(wire.NFS4ErrInvalid)
		return 0
	}
	m := a.k.Program.identity
	if m == nil {
		id, ok := identity.ParseNumber(name)
		if !ok {
			a.fail(wire.NFS4ErrBadOwner)
		}
		return id
	}
	id, err := m.Number(a.k.Call.Conn.Peer.Addr(), kind, name, a.k.Op.Try)
	switch {
	case errors.Is(err, vfs.ErrWouldBlock):
		a.fail(a.k.Block(m))
	case errors.Is(err, vfs.ErrDelay):
		a.fail(wire.NFS4ErrDelay)
	case err != nil:
		a.fail(wire.NFS4ErrBadOwner)
	}
	return id
}
