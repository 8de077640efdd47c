package nfs4wire

import (
	"maps"
	"slices"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr/xdrtest"
)

// The items that are marked as eligible are exactly those of RFC 8267 §6.1 (conformance row
// V1-28). READ_PLUS, the operations on extended attributes (XA-23) and callbacks have none (RFC 8267 §6.5).
func TestEligibleItems(t *testing.T) {
	want := map[string]bool{
		"Write4Args.Data":              true,
		"Create4Args.Objtype.Linkdata": true,
		"Read4Res.ResOK.Data":          true,
		"Readlink4Res.ResOK.Link":      true,
	}
	got := map[string]bool{}
	marks(operations, got)
	marks(callbacks, got)
	if !maps.Equal(got, want) {
		t.Errorf("marked: %v", slices.Sorted(maps.Keys(got)))
	}
}

func marks[N OpNum | CBOpNum](all []operation[N], found map[string]bool) {
	for _, o := range all {
		for _, fresh := range []func() xdrtest.Value{o.args, o.res} {
			if fresh != nil {
				xdrtest.EligibleItems(fresh, found)
			}
		}
	}
}

// A WRITE does not decode if a chunk replaces anything but its whole data: the stateid, a
// number, or a part of the data (conformance row V1-94).
func TestExcisedNonEligibleItem(t *testing.T) {
	w := xdr.NewWriter(make([]byte, 0, 256))
	args := Write4Args{StateID4{Seqid: 1}, 8, FileSync4, xdr.Eligible{Data: []byte("contents")}}
	args.Encode(w)
	whole := xdrtest.Stream(w)
	eligible := w.Payloads()[0].Position
	for at := 0; at < len(whole); at += 4 {
		for n := 4; at+n <= len(whole); n += 4 {
			stream := append(append([]byte(nil), whole[:at]...), whole[at+n:]...)
			var d xdr.Decoder
			d.Reset(stream, 0, []xdr.Excised{{Position: uint32(at), Data: whole[at : at+n]}})
			var got Write4Args
			got.Decode(&d)
			err := d.Finish()
			if isData := at == eligible && n == 8; (err == nil) != isData {
				t.Errorf("%d bytes excised at %d: %v", n, at, err)
			}
		}
	}
}
