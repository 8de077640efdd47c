package nfs_test

import (
	"bytes"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

const headerSize = 100 // offset of the arguments in these tests' messages

// argument encodes the arguments of a procedure that has an eligible argument.
type argument struct {
	encode func(w *xdr.Writer)
}

var eligibleArguments = map[wire.Procedure]argument{
	wire.ProcWrite: {func(w *xdr.Writer) {
		(&wire.Write3Args{FileHandle: wire.FileHandle3{Data: make([]byte, 37)}, Count: 5, Data: xdr.Eligible{Data: []byte("hello")}}).Encode(w)
	}},
	wire.ProcSymlink: {func(w *xdr.Writer) {
		(&wire.Symlink3Args{
			Where:   wire.DirOpArgs3{Dir: wire.FileHandle3{Data: make([]byte, 30)}, Name: []byte("name")},
			Symlink: wire.SymlinkData3{SymlinkAttributes: wire.Sattr3{Mode: wire.SetMode3{SetIt: true}}, SymlinkData: xdr.Eligible{Data: []byte("text")}},
		}).Encode(w)
	}},
}

// Only the items that RFC 8267 §4 names may be placed directly, and only at their position. The
// codec's marks and the binding agree on them (conformance rows V1-28, V1-94).
func TestOnlyMarkedArgumentsAreEligible(t *testing.T) {
	for p := range nfs.Binding3.Procedures {
		row := &nfs.Binding3.Procedures[p]
		arg, has := eligibleArguments[wire.Procedure(p)]
		if !has {
			if _, ok := row.Shape(*xdr.NewDecoder(make([]byte, 200)), []rpc.Placed{{Position: 0, Length: 4}}); ok {
				t.Errorf("%s: the binding has an eligible argument, the definition none", row.Name)
			}
			continue
		}
		w := xdr.NewWriter(make([]byte, 0, 4096))
		arg.encode(w)
		payload := w.Payloads()[0]
		if !payload.Eligible {
			t.Fatalf("%s: the codec does not mark its payload", row.Name)
		}
		var d xdr.Decoder
		d.Reset(w.Bytes(), headerSize, nil)
		at := uint32(headerSize + payload.Position)
		for position := uint32(0); position < at+64; position += 4 {
			_, ok := row.Shape(d, []rpc.Placed{{Position: position, Length: uint32(len(payload.Data))}})
			if ok != (position == at) {
				t.Errorf("%s: an item at %d of %d: eligible %v", row.Name, position, at, ok)
			}
		}
		if _, ok := row.Shape(d, []rpc.Placed{{Position: at, Length: 2}, {Position: at + 4, Length: 2}}); ok {
			t.Errorf("%s: two items are eligible", row.Name)
		}
		if _, ok := row.Shape(*xdr.NewDecoder(nil), []rpc.Placed{{Position: at}}); ok {
			t.Errorf("%s: arguments that are not there have an eligible item", row.Name)
		}
		// The prefix by which two calls are told apart ends where the payload starts.
		if sh, _ := row.Shape(d, nil); sh.Prefix != payload.Position || len(sh.Object) == 0 {
			t.Errorf("%s: prefix of %d bytes, payload at %d", row.Name, sh.Prefix, payload.Position)
		}
	}
}

// The largest possible size of a reply is known before the call is executed (conformance rows
// V1-48, V1-63, V1-67).
func TestReplyBounds(t *testing.T) {
	args := func(f func(w *xdr.Writer)) xdr.Decoder {
		w := xdr.NewWriter(make([]byte, 0, 4096))
		f(w)
		var d xdr.Decoder
		d.Reset(w.Bytes(), headerSize, nil)
		return d
	}
	fh := wire.FileHandle3{Data: make([]byte, 61)}
	for _, c := range []struct {
		p              wire.Procedure
		args           xdr.Decoder
		words, payload int
	}{
		{wire.ProcRead, args((&wire.Read3Args{FileHandle: fh, Count: 12345}).Encode), wire.Read3ResMaxReducedSize, 12345},
		{wire.ProcRead, args((&wire.Read3Args{FileHandle: fh, Count: 1<<32 - 1}).Encode), wire.Read3ResMaxReducedSize, nfs.MaxTransfer},
		{wire.ProcReadlink, args((&wire.Readlink3Args{Symlink: fh}).Encode), wire.Readlink3ResMaxReducedSize, nfs.MaxPath},
		{wire.ProcReaddir, args((&wire.Readdir3Args{Dir: fh, Count: 32768}).Encode), 4 + 88 + 8 + 32768 + 8, 0},
		{wire.ProcReaddirPlus, args((&wire.ReaddirPlus3Args{Dir: fh, DirCount: 1, MaxCount: 1<<32 - 1}).Encode), 4 + 88 + 8 + nfs.MaxDirectory + 8, 0},
	} {
		s, _ := nfs.Binding3.Procedures[c.p].Shape(c.args, nil)
		if s.Words != c.words || s.Payload != c.payload || !bytes.Equal(s.Object, fh.Data) {
			t.Errorf("%v: %+v, want %d and %d bytes", c.p, s, c.words, c.payload)
		}
	}
}

// The binding has each procedure of RFC 1813. Once is true for those that change something.
func TestProceduresThatChangeSomethingRunOnce(t *testing.T) {
	once := map[string]bool{
		"SETATTR": true, "WRITE": true, "CREATE": true, "MKDIR": true, "SYMLINK": true,
		"MKNOD": true, "REMOVE": true, "RMDIR": true, "RENAME": true, "LINK": true,
	}
	if n := len(nfs.Binding3.Procedures); n != 22 {
		t.Fatalf("%d procedures", n)
	}
	for p, row := range nfs.Binding3.Procedures {
		if "NFSPROC3_"+row.Name != wire.Procedure(p).String() {
			t.Errorf("procedure %d is %s, not %v", p, row.Name, wire.Procedure(p))
		}
		if row.Once != once[row.Name] {
			t.Errorf("%s: once %v", row.Name, row.Once)
		}
	}
}
