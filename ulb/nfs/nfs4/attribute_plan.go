package nfs4

import (
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

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
