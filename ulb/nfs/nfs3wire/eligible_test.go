package nfs3wire

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr/xdrtest"
)

// The items that are marked as eligible are exactly those of RFC 8267 §4 (conformance row
// V1-28).
func TestEligibleItems(t *testing.T) {
	want := map[string]bool{
		"Write3Args.Data":                  true,
		"Symlink3Args.Symlink.SymlinkData": true,
		"Read3Res.ResOK.Data":              true,
		"Readlink3Res.ResOK.Data":          true,
	}
	got := map[string]bool{}
	for _, p := range procedures {
		for _, fresh := range []func() xdrtest.Value{p.args, p.res} {
			xdrtest.EligibleItems(fresh, got)
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("marked: %v", slices.Sorted(maps.Keys(got)))
	}
}

// Arguments do not decode if a chunk replaces anything but a whole eligible item: a name, a
// handle, a number or a part of the data (conformance row V1-94).
func TestExcisedNonEligibleItem(t *testing.T) {
	w := xdr.NewWriter(make([]byte, 0, 256))
	args := Write3Args{
		FileHandle: FileHandle3{Data: []byte("handle!!")},
		Count:      8,
		Data:       xdr.Eligible{Data: []byte("contents")},
	}
	args.Encode(w)
	whole := xdrtest.Stream(w)
	eligible := w.Payloads()[0].Position
	for at := 0; at < len(whole); at += 4 {
		for n := 4; at+n <= len(whole); n += 4 {
			stream := append(append([]byte(nil), whole[:at]...), whole[at+n:]...)
			var d xdr.Decoder
			d.Reset(stream, 0, []xdr.Excised{{Position: uint32(at), Data: whole[at : at+n]}})
			var got Write3Args
			got.Decode(&d)
			err := d.Finish()
			if at == eligible && n == 8 {
				if err != nil {
					t.Errorf("the data itself: %v", err)
				}
				continue
			}
			if err == nil {
				t.Errorf("%d bytes excised at %d are accepted", n, at)
			}
		}
	}
	lookup := Lookup3Args{What: DirOpArgs3{Dir: FileHandle3{Data: []byte("dir!")}, Name: []byte("name")}}
	w.Reset(make([]byte, 0, 256))
	lookup.Encode(w)
	var d xdr.Decoder
	d.Reset(w.Bytes()[:12], 0, []xdr.Excised{{Position: 12, Data: []byte("name")}})
	lookup.Decode(&d)
	if err := d.Finish(); !errors.Is(err, xdr.ErrExcised) {
		t.Errorf("a name in a chunk: %v", err)
	}
}
