package nfs_test

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

type encoder interface{ Encode(w *xdr.Writer) }

// op4 is an operation of a compound.
type op4 struct {
	number wire.OpNum
	args   encoder
}

// compound4 encodes a compound. The payloads of eligible arguments stay separate from the XDR.
func compound4(minor uint32, ops ...op4) *xdr.Writer {
	w := xdr.NewWriter(make([]byte, 0, 64<<10))
	w.Opaque([]byte("a tag"))
	w.Uint32(minor)
	w.Uint32(uint32(len(ops)))
	for _, o := range ops {
		w.Uint32(uint32(o.number))
		if o.args != nil {
			o.args.Encode(w)
		}
	}
	return w
}

// shape4 returns the Shape that the walk finds. If beside is true, the payloads are placed
// directly. Otherwise they are inline.
func shape4(w *xdr.Writer, beside bool) (rpc.Shape, bool) {
	row := &nfs.Binding4.Procedures[wire.ProcCompound]
	var d xdr.Decoder
	if beside {
		var placed []rpc.Placed
		before := 0
		for _, p := range w.Payloads() {
			placed = append(placed, rpc.Placed{Position: uint32(headerSize + p.Position + before), Length: uint32(len(p.Data))})
			before += len(p.Data) + xdr.Pad(len(p.Data))
		}
		d.Reset(w.Bytes(), headerSize, nil)
		return row.Shape(d, placed)
	}
	d.Reset(stream(w), headerSize, nil)
	return row.Shape(d, nil)
}

// stream returns the bytes of w with the payloads at their positions.
func stream(w *xdr.Writer) (b []byte) {
	at := 0
	for _, p := range w.Payloads() {
		b = append(b, w.Bytes()[at:p.Position]...)
		b = append(append(b, p.Data...), make([]byte, xdr.Pad(len(p.Data)))...)
		at = p.Position
	}
	return append(b, w.Bytes()[at:]...)
}

func write4(n int) op4 {
	return op4{wire.OpWrite, &wire.Write4Args{Data: xdr.Eligible{Data: make([]byte, n)}}}
}

func symlink4(n int) op4 {
	return op4{wire.OpCreate, &wire.Create4Args{
		Objtype: wire.Createtype4{Type: wire.NF4Lnk, Linkdata: xdr.Eligible{Data: make([]byte, n)}}, Objname: []byte("name"),
	}}
}

func putFH4(h string) op4 { return op4{wire.OpPutFH, &wire.PutFH4Args{Object: []byte(h)}} }

// Only the items that RFC 8267 §6.1 names may be placed directly, and only at their position.
// One compound may have several.
func TestEligibleArgumentsOfCompounds(t *testing.T) {
	for name, w := range map[string]*xdr.Writer{
		"WRITE":            compound4(1, putFH4("handle"), write4(4096)),
		"CREATE":           compound4(0, putFH4("handle"), symlink4(77)),
		"two WRITEs":       compound4(1, putFH4("handle"), write4(4096), write4(513), op4{wire.OpGetFH, nil}),
		"WRITE and CREATE": compound4(2, putFH4("handle"), write4(5), putFH4("other"), symlink4(9)),
	} {
		if _, ok := shape4(w, true); !ok {
			t.Errorf("%s: what the codec marks is not eligible", name)
		}
		for _, off := range []int{-4, 4} {
			row := &nfs.Binding4.Procedures[wire.ProcCompound]
			var d xdr.Decoder
			d.Reset(stream(w), headerSize, nil)
			at := headerSize + w.Payloads()[0].Position + off
			if _, ok := row.Shape(d, []rpc.Placed{{Position: uint32(at), Length: 4}}); ok {
				t.Errorf("%s: an item %d bytes from where it stands is eligible", name, off)
			}
		}
	}
	// Names, handles and attributes are not eligible, and neither are values of extended attributes (conformance
	// row XA-23).
	w := compound4(2, putFH4("a handle that is long"), op4{wire.OpRemove, &wire.Remove4Args{Target: []byte("a name that is long")}},
		op4{wire.OpSetXattr, &wire.SetXattr4Args{Key: []byte("name"), Value: []byte("a value that is long")}})
	row := &nfs.Binding4.Procedures[wire.ProcCompound]
	for at := range len(w.Bytes()) / 4 {
		var d xdr.Decoder
		d.Reset(w.Bytes(), headerSize, nil)
		if _, ok := row.Shape(d, []rpc.Placed{{Position: uint32(headerSize + 4*at), Length: 4}}); ok {
			t.Errorf("an item at %d is eligible", 4*at)
		}
	}
}

// The needs of a compound are known before it is executed: payload memory for its READs
// together, at most one transfer, and XDR space for the results of all operations.
func TestBoundsOfCompounds(t *testing.T) {
	read := func(n uint32) op4 { return op4{wire.OpRead, &wire.Read4Args{Count: n}} }
	listing := func(n uint32) op4 { return op4{wire.OpReaddir, &wire.Readdir4Args{Maxcount: n}} }
	for _, c := range []struct {
		name           string
		ops            []op4
		payload, words int
	}{
		{"nothing", nil, 0, 0},
		{"a READ", []op4{read(4096)}, 4096, 24},
		{"two READs", []op4{read(4096), read(100)}, 4196, 40},
		{"READs beyond a transfer", []op4{read(1 << 20), read(1 << 20)}, nfs.MaxTransfer, 40},
		{"a READ of everything", []op4{read(1<<32 - 1)}, nfs.MaxTransfer, 24},
		{"READLINK", []op4{{wire.OpReadlink, nil}}, nfs.MaxPath, 20},
		{"READDIR", []op4{listing(32 << 10)}, 0, 32 << 10},
		{"READDIR of everything", []op4{listing(1<<32 - 1)}, 0, nfs.MaxDirectory},
		{"GETATTR", []op4{{wire.OpGetattr, &wire.Getattr4Args{}}}, 0, nfs.MaxAttributes},
		{"GETXATTR", []op4{{wire.OpGetXattr, &wire.GetXattr4Args{}}}, 0, 64 << 10},
		{"SETXATTR", []op4{{wire.OpSetXattr, &wire.SetXattr4Args{Value: make([]byte, 9000)}}}, 0, 20},
		{"LISTXATTRS", []op4{{wire.OpListXattrs, &wire.ListXattrs4Args{Maxcount: 1000}}}, 0, 1000},
		{"LISTXATTRS of everything", []op4{{wire.OpListXattrs, &wire.ListXattrs4Args{Maxcount: 1<<32 - 1}}}, 0, 64 << 10 / 7 * 8},
		{"REMOVEXATTR", []op4{{wire.OpRemoveXattr, &wire.RemoveXattr4Args{}}}, 0, 20},
		{"a READ behind an operation that is none", []op4{{wire.OpNum(99), nil}, read(4096)}, 0, 0},
	} {
		s, _ := shape4(compound4(1, c.ops...), false)
		if s.Payload != c.payload || s.Words < c.words || s.Words > c.words+200 {
			t.Errorf("%s: payload %d, words %d; want %d and some more than %d", c.name, s.Payload, s.Words, c.payload, c.words)
		}
	}
}

// The object of a compound is the first handle that it puts.
func TestObjectOfCompounds(t *testing.T) {
	s, _ := shape4(compound4(1, op4{wire.OpPutRootFH, nil}, putFH4("first"), putFH4("second")), false)
	if string(s.Object) != "first" {
		t.Errorf("%q", s.Object)
	}
	if s, _ = shape4(compound4(1, op4{wire.OpPutRootFH, nil}), false); s.Object != nil {
		t.Errorf("%q", s.Object)
	}
}

// Minor version 0 has no slots, so the duplicate-request cache remembers compounds that must
// not be executed twice. In later minor versions it does not, because the slots do.
func TestRepetitionOfCompounds(t *testing.T) {
	remove := op4{wire.OpRemove, &wire.Remove4Args{Target: []byte("x")}}
	for _, c := range []struct {
		minor uint32
		ops   []op4
		want  bool
	}{
		{0, []op4{putFH4("h"), {wire.OpGetFH, nil}}, false},
		{0, []op4{putFH4("h"), write4(8)}, true},
		{0, []op4{putFH4("h"), remove}, true},
		{0, []op4{putFH4("h"), write4(8), remove}, true},
		{1, []op4{putFH4("h"), remove}, false},
		{2, []op4{putFH4("h"), write4(8)}, false},
	} {
		if s, _ := shape4(compound4(c.minor, c.ops...), false); s.Once != c.want {
			t.Errorf("minor version %d, %v: %v", c.minor, c.ops, s.Once)
		}
	}
}

// The walk accepts any bytes, cut off anywhere, and never asks for more than the largest call
// may need.
func FuzzWalkCompound(f *testing.F) {
	f.Add(stream(compound4(1, putFH4("handle"), write4(100), symlink4(8))), uint32(0))
	f.Add(stream(compound4(0, op4{wire.OpReaddir, &wire.Readdir4Args{Maxcount: 1 << 31}}, op4{wire.OpLock, &wire.Lock4Args{Locktype: wire.WriteLt}})), uint32(8))
	f.Fuzz(func(t *testing.T, b []byte, placed uint32) {
		var d xdr.Decoder
		d.Reset(b, headerSize, nil)
		row := &nfs.Binding4.Procedures[wire.ProcCompound]
		for _, p := range [][]rpc.Placed{nil, {{Position: headerSize + placed, Length: 4}}} {
			if s, _ := row.Shape(d, p); s.Words < 0 || s.Words > nfs.MaxCompound || s.Payload < 0 || s.Payload > nfs.MaxTransfer {
				t.Fatalf("%+v", s)
			}
		}
	})
}
