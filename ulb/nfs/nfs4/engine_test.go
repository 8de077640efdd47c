package nfs4_test

import (
	"slices"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// plain is a minor version without operations and checks of its own.
type plain struct{}

func (plain) Operations() []nfs4.Operation                         { return nil }
func (plain) Before(*nfs4.Compound, *nfs4.Operation) wire.NFSStat4 { return wire.NFS4OK }
func (plain) After(*nfs4.Compound)                                 {}

func plainSite(t *testing.T) *nfs4test.Peer {
	return nfs4test.New(t, nfs4test.Config{Minors: func(*state.Manager) [3]nfs4.Minor {
		return [3]nfs4.Minor{plain{}, nil, plain{}}
	}}).Peer(0)
}

func op(n wire.OpNum) nfs4test.Op { return nfs4test.Op{Number: n} }

func putFH(h []byte) nfs4test.Op {
	return nfs4test.Op{Number: wire.OpPutFH, Args: &wire.PutFH4Args{Object: h}}
}

// statuses returns the statuses of a compound's operations.
func statuses(r *nfs4test.Result) (all []wire.NFSStat4) {
	for _, o := range r.Ops {
		all = append(all, o.Status)
	}
	return all
}

func TestHandles(t *testing.T) {
	p := plainSite(t)
	r := p.Compound(op(wire.OpPutRootFH), op(wire.OpSaveFH), op(wire.OpRestoreFH), op(wire.OpGetFH))
	if r.Status != wire.NFS4OK || len(r.Ops) != 4 {
		t.Fatalf("%v %v", r.Status, statuses(r))
	}
	var res wire.GetFH4Res
	r.Ops[3].Into(t, &res)
	if r = p.Compound(putFH(res.ResOK.Object), op(wire.OpGetFH)); r.Status != wire.NFS4OK {
		t.Fatalf("%v %v", r.Status, statuses(r))
	}
}

// A compound ends with the first operation that fails. Its reply ends with the result of that
// operation.
func TestCompoundEndsWhereItFails(t *testing.T) {
	for _, c := range []struct {
		name string
		ops  []nfs4test.Op
		want wire.NFSStat4
		n    int
	}{
		{"no handle", []nfs4test.Op{op(wire.OpGetFH), op(wire.OpPutRootFH)}, wire.NFS4ErrNoFileHandle, 1},
		{"nothing saved", []nfs4test.Op{op(wire.OpPutRootFH), op(wire.OpRestoreFH)}, wire.NFS4ErrRestoreFH, 2},
		{"not a handle", []nfs4test.Op{putFH([]byte("no handle of ours")), op(wire.OpGetFH)}, wire.NFS4ErrBadHandle, 1},
		{"no operation of this minor version", []nfs4test.Op{op(wire.OpPutRootFH), op(wire.OpSequence)}, wire.NFS4ErrOpIllegal, 2},
		{"no operation at all", []nfs4test.Op{op(2), op(wire.OpPutRootFH)}, wire.NFS4ErrOpIllegal, 1},
		{"an operation that is not served", []nfs4test.Op{op(wire.OpPutRootFH), op(wire.OpOpenattr)}, wire.NFS4ErrNotSupp, 2},
		{"nothing to do", nil, wire.NFS4OK, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := plainSite(t).Compound(c.ops...)
			if r.Status != c.want || len(r.Ops) != c.n || c.n > 0 && r.Ops[c.n-1].Status != c.want {
				t.Errorf("%v %v", r.Status, statuses(r))
			}
		})
	}
}

// If a compound is cut off before an operation number, the result for that operation has the
// number OP_ILLEGAL.
func TestCompoundThatIsCutOff(t *testing.T) {
	p := plainSite(t)
	r := p.Parse(p.End(p.Begin(p.Raw(func(w *xdr.Writer) {
		w.Opaque([]byte("tag"))
		w.Uint32(0)
		w.Uint32(2)
		w.Uint32(uint32(wire.OpPutRootFH))
	}))))
	if r.Status != wire.NFS4ErrBadXDR || len(r.Ops) != 2 || r.Ops[1].Number != wire.OpIllegal || r.Tag != "tag" {
		t.Errorf("%+v", r)
	}
}

func TestMinorVersionThatIsNotServed(t *testing.T) {
	for _, minor := range []uint32{1, 3, 1 << 31} {
		p := plainSite(t).Site.Peer(minor)
		if r := p.Compound(op(wire.OpPutRootFH)); r.Status != wire.NFS4ErrMinorVersMismatch || len(r.Ops) != 0 {
			t.Errorf("%d: %+v", minor, r)
		}
	}
}

func TestCompoundThatIsNone(t *testing.T) {
	p := plainSite(t)
	_, err := p.End(p.Begin(p.Raw(func(w *xdr.Writer) { w.Uint32(7) }))).Results()
	if e, ok := err.(*rpc.ReplyError); !ok || e.Stat != rpc.AcceptGarbageArgs {
		t.Error(err)
	}
}

// The tag must be UTF-8 (RFC 8881 §14.1). The reply repeats it.
func TestTags(t *testing.T) {
	p := plainSite(t)
	for tag, want := range map[string]wire.NFSStat4{
		"": wire.NFS4OK, "plain": wire.NFS4OK, "gr\u00fcn": wire.NFS4OK, "\xff\xfe": wire.NFS4ErrInvalid, "cut \xc3": wire.NFS4ErrInvalid,
	} {
		r := p.Parse(p.End(p.Begin(p.Message(tag, op(wire.OpPutRootFH)))))
		if r.Status != want || r.Tag != tag {
			t.Errorf("%q: %+v", tag, r)
		}
	}
}

// A compound of minor version 0 with too many operations gets NFS4ERR_RESOURCE.
func TestCompoundWithTooManyOperations(t *testing.T) {
	p := plainSite(t)
	ops := make([]nfs4test.Op, nfs.MaxOperations+1)
	for i := range ops {
		ops[i] = op(wire.OpPutRootFH)
	}
	r := p.Compound(ops...)
	if n := nfs.MaxOperations; r.Status != wire.NFS4ErrResource || len(r.Ops) != n+1 || r.Ops[n-1].Status != wire.NFS4OK {
		t.Errorf("%v after %d", r.Status, len(r.Ops))
	}
}

func TestOperationsAreCounted(t *testing.T) {
	p := plainSite(t)
	p.Compound(op(wire.OpPutRootFH), op(wire.OpPutRootFH), op(wire.OpRestoreFH))
	p.Compound(op(99))
	want := []nfs4.OperationStats{
		{Operation: wire.OpPutRootFH, Status: wire.NFS4OK, Count: 2},
		{Operation: wire.OpRestoreFH, Status: wire.NFS4ErrRestoreFH, Count: 1},
		{Operation: wire.OpIllegal, Status: wire.NFS4ErrOpIllegal, Count: 1},
	}
	if got := p.Program.Stats(); !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}
