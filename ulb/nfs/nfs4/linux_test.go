package nfs4_test

import (
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// coder is the arguments or the result of an operation.
type coder interface {
	Decode(d *xdr.Decoder)
	Encode(w *xdr.Writer)
}

// none is the arguments of an operation without arguments.
type none struct{}

func (none) Decode(*xdr.Decoder) {}
func (none) Encode(*xdr.Writer)  {}

// linuxOps holds the operations of captured compounds that the test executes, with the types of
// their arguments and results.
var linuxOps = map[wire.OpNum]struct{ args, res func() coder }{
	wire.OpPutFH:         {func() coder { return &wire.PutFH4Args{} }, func() coder { return &wire.PutFH4Res{} }},
	wire.OpPutRootFH:     {func() coder { return none{} }, func() coder { return &wire.PutRootFH4Res{} }},
	wire.OpGetFH:         {func() coder { return none{} }, func() coder { return &wire.GetFH4Res{} }},
	wire.OpSaveFH:        {func() coder { return none{} }, func() coder { return &wire.SaveFH4Res{} }},
	wire.OpRestoreFH:     {func() coder { return none{} }, func() coder { return &wire.RestoreFH4Res{} }},
	wire.OpSequence:      {func() coder { return &wire.Sequence4Args{} }, func() coder { return &wire.Sequence4Res{} }},
	wire.OpLookup:        {func() coder { return &wire.Lookup4Args{} }, func() coder { return &wire.Lookup4Res{} }},
	wire.OpLookupp:       {func() coder { return none{} }, func() coder { return &wire.Lookupp4Res{} }},
	wire.OpGetattr:       {func() coder { return &wire.Getattr4Args{} }, func() coder { return &wire.Getattr4Res{} }},
	wire.OpAccess:        {func() coder { return &wire.Access4Args{} }, func() coder { return &wire.Access4Res{} }},
	wire.OpReaddir:       {func() coder { return &wire.Readdir4Args{} }, func() coder { return &wire.Readdir4Res{} }},
	wire.OpReadlink:      {func() coder { return none{} }, func() coder { return &wire.Readlink4Res{} }},
	wire.OpSetattr:       {func() coder { return &wire.Setattr4Args{} }, func() coder { return &wire.Setattr4Res{} }},
	wire.OpCreate:        {func() coder { return &wire.Create4Args{} }, func() coder { return &wire.Create4Res{} }},
	wire.OpRemove:        {func() coder { return &wire.Remove4Args{} }, func() coder { return &wire.Remove4Res{} }},
	wire.OpRename:        {func() coder { return &wire.Rename4Args{} }, func() coder { return &wire.Rename4Res{} }},
	wire.OpLink:          {func() coder { return &wire.Link4Args{} }, func() coder { return &wire.Link4Res{} }},
	wire.OpSecInfoNoName: {func() coder { return new(wire.SecinfoStyle4) }, func() coder { return &wire.SecInfo4Res{} }},
}

// A linuxCompound is a captured compound whose operations are all in linuxOps.
type linuxCompound struct {
	minor   uint32
	numbers []wire.OpNum
	parts   []coder // arguments, or results
}

func (c *linuxCompound) key() string { return fmt.Sprint(c.minor, c.numbers) }

// linuxCompounds returns the captured calls, and the captured replies by linuxCompound.key.
func linuxCompounds(t *testing.T) (calls []linuxCompound, replies map[string]linuxCompound) {
	t.Helper()
	text, err := os.ReadFile("../nfs4wire/testdata/linux.txt")
	if err != nil {
		t.Fatal(err)
	}
	replies = map[string]linuxCompound{}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if f[0] == "#" || strings.HasPrefix(f[1], "cb") {
			continue
		}
		stream, err := hex.DecodeString(f[2])
		if err != nil {
			t.Fatal(err)
		}
		c := linuxCompound{minor: uint32(f[0][2] - '0')}
		d, reply := xdr.NewDecoder(stream), f[1] == "reply"
		if reply {
			d.Uint32()
		}
		d.Opaque(1024)
		if !reply {
			d.Uint32()
		}
		ours := true
		for range d.Uint32() {
			n := wire.OpNum(d.Uint32())
			row, known := linuxOps[n]
			if ours = known; !ours {
				break
			}
			part := row.args()
			if reply {
				part = row.res()
			}
			part.Decode(d)
			c.numbers, c.parts = append(c.numbers, n), append(c.parts, part)
		}
		switch {
		case !ours:
		case d.Finish() != nil:
			t.Fatalf("%s: %v", line, d.Finish())
		case reply:
			replies[c.key()] = c
		default:
			calls = append(calls, c)
		}
	}
	return calls, replies
}

// placeOf returns the path of the object whose handle replaces the handle of the PUTFH at index
// i. The object is of the kind that the following operations need.
func (c *linuxCompound) placeOf(i int) []string {
	for at, n := range c.numbers[i+1:] {
		switch n {
		case wire.OpLookup, wire.OpLookupp, wire.OpReaddir, wire.OpCreate, wire.OpRemove, wire.OpRename, wire.OpAccess:
			return []string{"data"}
		case wire.OpLink:
			return []string{"data", "dir"}
		case wire.OpReadlink:
			return []string{"data", "link"}
		case wire.OpSaveFH:
			if len(c.numbers) > i+at+3 && c.numbers[i+at+3] == wire.OpLink {
				return []string{"data", "file"}
			}
			return []string{"data"}
		case wire.OpSetattr:
			return []string{"data", "file"}
		}
	}
	return []string{"data", "file"}
}

// missing holds the attributes that Linux's server has and this server lacks: ACLs and layouts.
var missing = wire.Bits(wire.Fattr4ACL, wire.Fattr4FsLayoutTypes, wire.Fattr4LayoutTypes, wire.Fattr4LayoutBlksize)

// A captured compound of Linux's client about names and attributes gets the same status and the
// same attributes as it got from Linux's server.
func TestLinuxCompounds(t *testing.T) {
	calls, replies := linuxCompounds(t)
	run := 0
	for _, c := range calls {
		theirs, ok := replies[c.key()]
		if !ok {
			continue
		}
		run++
		p := treeSite(t, "/data").Peer(c.minor)
		var ops []nfs4test.Op
		var results []coder
		for i, args := range c.parts {
			switch a := args.(type) {
			case *wire.Sequence4Args:
				continue
			case *wire.PutFH4Args:
				a.Object = handleOf(t, p, c.placeOf(i)...)
			case *wire.Lookup4Args:
				p.Compound(append(at(), create(wire.NF4Fifo, string(a.Objname), wire.FAttr4{}))...)
			case *wire.Remove4Args:
				p.Compound(append(at(), create(wire.NF4Fifo, string(a.Target), wire.FAttr4{}))...)
			case *wire.Rename4Args:
				p.Compound(append(at(), create(wire.NF4Fifo, string(a.Oldname), wire.FAttr4{}))...)
			case *wire.Readdir4Args:
				a.Cookie, a.Cookieverf = 0, wire.Verifier4{}
			}
			ops = append(ops, nfs4test.Op{Number: c.numbers[i], Args: args})
			results = append(results, theirs.parts[i])
		}
		r := p.Compound(ops...)
		if len(r.Ops) != len(ops) {
			t.Errorf("4.%d %v: %v", c.minor, c.numbers, statuses(r))
			continue
		}
		for i, theirs := range results {
			ours := linuxOps[ops[i].Number].res()
			r.Ops[i].Into(t, ours)
			if got, want := r.Ops[i].Status, statusOf(theirs); got != want {
				t.Errorf("%s: %v: %v, Linux says %v", c.key(), ops[i].Number, got, want)
			}
			compareWithLinux(t, c.key(), ours, theirs)
		}
	}
	if run < 20 {
		t.Errorf("only %d compounds", run)
	}
}

// statusOf returns the status, which is the first field of every result.
func statusOf(res coder) wire.NFSStat4 {
	w := xdr.NewWriter(make([]byte, 0, 1<<16))
	res.Encode(w)
	return wire.NFSStat4(xdr.NewDecoder(w.Bytes()).Int32())
}

// compareWithLinux compares two servers' results, except for the status.
func compareWithLinux(t *testing.T, what string, ours, theirs coder) {
	t.Helper()
	same := true
	switch o := ours.(type) {
	case *wire.Getattr4Res:
		l := theirs.(*wire.Getattr4Res)
		same = o.ResOK.Attributes.Attrmask == l.ResOK.Attributes.Attrmask.Without(&missing)
	case *wire.Access4Res:
		same = o.ResOK.Supported == theirs.(*wire.Access4Res).ResOK.Supported
	case *wire.Setattr4Res:
		same = o.Attrsset == theirs.(*wire.Setattr4Res).Attrsset
	case *wire.Create4Res:
		same = o.ResOK.Attrset == theirs.(*wire.Create4Res).ResOK.Attrset
	case *wire.Readdir4Res:
		l := theirs.(*wire.Readdir4Res)
		var a, b wire.Entry4
		same = o.ResOK.Reply.Entries.Next(&a) && l.ResOK.Reply.Entries.Next(&b) &&
			a.Attrs.Attrmask == b.Attrs.Attrmask.Without(&missing)
	}
	if !same {
		t.Errorf("%s: %T\n%+v\nLinux: %+v", what, ours, ours, theirs)
	}
}
