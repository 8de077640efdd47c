package nlm4wire

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/buildbarn/go-xdr/pkg/protocols/nlm"
	"pgregory.net/rapid"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr/xdrtest"
)

// types lists the arguments and results of all procedures.
var types = []struct {
	name   string
	fresh  func() xdrtest.Value
	oracle xdrtest.Foreign
}{
	{"TEST/args", func() xdrtest.Value { return new(TestArgs4) }, xdrtest.ForeignStruct[nlm.Nlm4Testargs]()},
	{"TEST/res", func() xdrtest.Value { return new(TestRes4) }, xdrtest.ForeignStruct[nlm.Nlm4Testres]()},
	{"LOCK/args", func() xdrtest.Value { return new(LockArgs4) }, xdrtest.ForeignStruct[nlm.Nlm4Lockargs]()},
	{"LOCK/res", func() xdrtest.Value { return new(Res4) }, xdrtest.ForeignStruct[nlm.Nlm4Res]()},
	{"CANCEL/args", func() xdrtest.Value { return new(CancelArgs4) }, xdrtest.ForeignStruct[nlm.Nlm4Cancargs]()},
	{"UNLOCK/args", func() xdrtest.Value { return new(UnlockArgs4) }, xdrtest.ForeignStruct[nlm.Nlm4Unlockargs]()},
	{"SHARE/args", func() xdrtest.Value { return new(ShareArgs4) }, xdrtest.ForeignStruct[nlm.Nlm4Shareargs]()},
	{"SHARE/res", func() xdrtest.Value { return new(ShareRes4) }, xdrtest.ForeignStruct[nlm.Nlm4Shareres]()},
	{"FREE_ALL/args", func() xdrtest.Value { return new(Notify4) }, xdrtest.ForeignStruct[nlm.Nlm4Notify]()},
}

// narrow lists the types of versions 1 and 3, which go-xdr does not have, with the types of version 4 beside them.
var narrow = []struct {
	fresh, wide func() xdrtest.Value
}{
	{func() xdrtest.Value { return new(TestArgs3) }, func() xdrtest.Value { return new(TestArgs4) }},
	{func() xdrtest.Value { return new(TestRes3) }, func() xdrtest.Value { return new(TestRes4) }},
	{func() xdrtest.Value { return new(LockArgs3) }, func() xdrtest.Value { return new(LockArgs4) }},
	{func() xdrtest.Value { return new(CancelArgs3) }, func() xdrtest.Value { return new(CancelArgs4) }},
	{func() xdrtest.Value { return new(UnlockArgs3) }, func() xdrtest.Value { return new(UnlockArgs4) }},
}

// A value of version 3 is encoded as that of version 4 with the same fields, but for four bytes less in its offset and in its
// length.
func TestNarrowTypes(t *testing.T) {
	for _, c := range narrow {
		xdrtest.CheckAllocations(t, c.fresh)
		three, four := c.fresh(), c.wide()
		// Offset and Length are the last two numbers before what follows the lock, in every type.
		fill(reflect.ValueOf(three).Elem())
		fill(reflect.ValueOf(four).Elem())
		w3, w4 := xdr.NewWriter(make([]byte, 0, 512)), xdr.NewWriter(make([]byte, 0, 512))
		three.Encode(w3)
		four.Encode(w4)
		want := bytes.Replace(w4.Bytes(), []byte{0, 0, 0, 0, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0, 0, 18}, []byte{0, 0, 0, 17, 0, 0, 0, 18}, 1)
		if !bytes.Equal(w3.Bytes(), want) || w4.Len()-w3.Len() != 8 {
			t.Errorf("%T:\n%x\nnot\n%x", three, w3.Bytes(), want)
		}
	}
}

// fill sets the fields of a struct, and of the structs in it, by their names. Numbers are less than 32 bits.
func fill(v reflect.Value) {
	for i := range v.NumField() {
		switch f, name := v.Field(i), v.Type().Field(i).Name; {
		case name == "Stat":
			f.SetInt(int64(Denied))
		case name == "Offset":
			f.SetUint(17)
		case name == "Length":
			f.SetUint(18)
		case f.Kind() == reflect.Struct:
			fill(f)
		case f.Kind() == reflect.Slice:
			f.SetBytes([]byte(name))
		case f.Kind() == reflect.Bool:
			f.SetBool(true)
		case f.CanInt():
			f.SetInt(int64(len(name)))
		}
	}
}

// go-xdr decodes what this package encodes to the same values, and the reverse, for the
// arguments and results of every procedure.
func TestOracle(t *testing.T) {
	for _, c := range types {
		t.Run(c.name, rapid.MakeCheck(func(t *rapid.T) { xdrtest.CheckForeign(t, c.fresh, c.oracle) }))
	}
}

// No type allocates when it is encoded or decoded.
func TestNoAllocation(t *testing.T) {
	for _, c := range types {
		xdrtest.CheckAllocations(t, c.fresh)
	}
}

// The numbers are the same as those of go-xdr, an independent implementation.
func TestNumbers(t *testing.T) {
	if difference := xdrtest.SameNames(namesStat4, nlm.Nlm4Stats_name); difference != "" {
		t.Error(difference)
	}
	for name, c := range map[string][2]uint32{
		"program": {Program, nlm.NLM_PROG_PROGRAM_NUMBER},
		"version": {Version, 4},
		"name":    {NameLen, nlm.LM_MAXSTRLEN},
		"notify":  {NotifyNameLen, nlm.LM_MAXNAMELEN},
		"object":  {ObjectLen, nlm.MAXNETOBJ_SZ},
	} {
		if c[0] != c[1] {
			t.Errorf("%s: %d, not %d", name, c[0], c[1])
		}
	}
	// The numbers of the procedures are those of RFC 1813 §6.2.
	for p, number := range map[Procedure]uint32{
		ProcNull: 0, ProcTest: 1, ProcLock: 2, ProcCancel: 3, ProcUnlock: 4, ProcGranted: 5, ProcGrantedMsg: 10,
		ProcGrantedRes: 15, ProcShare: 20, ProcUnshare: 21, ProcNmLock: 22, ProcFreeAll: 23,
	} {
		if uint32(p) != number {
			t.Errorf("%v is %d, not %d", p, p, number)
		}
	}
}

// If bytes decode, the value is encoded to as many bytes.
func FuzzTypes(f *testing.F) {
	for i, c := range types {
		for seed := range 3 {
			w := xdr.NewWriter(make([]byte, 0, 8192))
			xdrtest.Example(c.fresh, seed).Encode(w)
			f.Add(uint8(i), xdrtest.Stream(w))
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, stream []byte) {
		v := types[int(which)%len(types)].fresh()
		d := xdr.NewDecoder(stream)
		v.Decode(d)
		if d.Finish() != nil {
			return
		}
		w := xdr.NewWriter(make([]byte, 0, len(stream)))
		v.Encode(w)
		if w.Overflow() || w.Len() != len(stream) {
			t.Fatalf("%T: %x\nencoded as %x", v, stream, w.Bytes())
		}
	})
}
