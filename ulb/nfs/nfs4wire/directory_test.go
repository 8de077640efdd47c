package nfs4wire

import (
	"bytes"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// The iterator reads back a listing that was written entry by entry.
func TestDirectoryEntryByEntry(t *testing.T) {
	names := []string{"a", "a longer name", ""}
	res := Readdir4Res{Status: NFS4OK}
	res.ResOK.Cookieverf = Verifier4{1, 2, 3, 4, 5, 6, 7, 8}
	res.ResOK.Reply.EOF = true

	w := xdr.NewWriter(make([]byte, 0, 1024))
	res.EncodeHead(w)
	for i, name := range names {
		PutEntry4(w, &Entry4{
			Cookie: uint64(i + 3), Name: []byte(name),
			Attrs: FAttr4{Attrmask: Bits(Fattr4FileID), AttrVals: []byte{0, 0, 0, 0, 0, 0, 0, byte(i)}},
		})
	}
	EndEntry4List(w)
	res.EncodeTail(w)

	var got Readdir4Res
	d := xdr.NewDecoder(w.Bytes())
	got.Decode(d)
	if err := d.Finish(); err != nil || got.ResOK.Cookieverf != res.ResOK.Cookieverf || !got.ResOK.Reply.EOF {
		t.Fatalf("%+v, %v", got.ResOK, err)
	}
	again := xdr.NewWriter(make([]byte, 0, 1024))
	got.Encode(again)
	if !bytes.Equal(again.Bytes(), w.Bytes()) {
		t.Errorf("encoded again:\n%x\n%x", again.Bytes(), w.Bytes())
	}
	var e Entry4
	for i, name := range names {
		if !got.ResOK.Reply.Entries.Next(&e) {
			t.Fatalf("%d entries", i)
		}
		if e.Cookie != uint64(i+3) || string(e.Name) != name || e.Attrs.AttrVals[7] != byte(i) || !e.Attrs.Attrmask.Has(Fattr4FileID) {
			t.Errorf("entry %d: %+v", i, e)
		}
	}
	if got.ResOK.Reply.Entries.Next(&e) {
		t.Errorf("an entry after the last: %+v", e)
	}
}
