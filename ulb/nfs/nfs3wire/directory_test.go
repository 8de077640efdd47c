package nfs3wire

import (
	"bytes"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// A listing written entry by entry has the same bytes as the list's own encoding. The iterator
// reads the entries back, also a second time.
func TestDirectoryEntryByEntry(t *testing.T) {
	names := []string{".", "..", "a longer name", ""}
	res := ReaddirPlus3Res{Status: NFS3OK}
	res.ResOK.CookieVerf = CookieVerf3{1, 2, 3, 4, 5, 6, 7, 8}
	res.ResOK.DirAttributes = PostOpAttr{AttributesFollow: true, Attributes: Fattr3{Type: NF3Dir}}
	res.ResOK.Reply.EOF = true

	w := xdr.NewWriter(make([]byte, 0, 1024))
	res.EncodeHead(w)
	for i, name := range names {
		PutEntryPlus3(w, &EntryPlus3{
			FileID: uint64(i + 1), Name: []byte(name), Cookie: uint64(i + 10),
			NameHandle: PostOpFH3{HandleFollows: i%2 == 0, Handle: FileHandle3{Data: []byte{byte(i)}}},
		})
	}
	EndEntryPlus3List(w)
	res.EncodeTail(w)

	d := xdr.NewDecoder(w.Bytes())
	var got ReaddirPlus3Res
	got.Decode(d)
	if err := d.Finish(); err != nil {
		t.Fatal(err)
	}
	if got.ResOK.CookieVerf != res.ResOK.CookieVerf || !got.ResOK.Reply.EOF {
		t.Errorf("around the list: %+v", got.ResOK)
	}

	again := xdr.NewWriter(make([]byte, 0, 1024))
	got.Encode(again)
	if !bytes.Equal(again.Bytes(), w.Bytes()) {
		t.Errorf("encoded again:\n%x\n%x", again.Bytes(), w.Bytes())
	}

	var e EntryPlus3
	for i, name := range names {
		if !got.ResOK.Reply.Entries.Next(&e) {
			t.Fatalf("%d entries", i)
		}
		if e.FileID != uint64(i+1) || string(e.Name) != name || e.Cookie != uint64(i+10) ||
			e.NameHandle.HandleFollows != (i%2 == 0) {
			t.Errorf("entry %d: %+v", i, e)
		}
	}
	for range 2 { // Next stays false at the end, although the EOF word follows
		if got.ResOK.Reply.Entries.Next(&e) {
			t.Errorf("an entry after the last: %+v", e)
		}
	}
}

// A failed READDIR has no entries, so EncodeHead and EncodeTail together write the whole
// result.
func TestDirectoryFailure(t *testing.T) {
	res := Readdir3Res{Status: NFS3ErrStale}
	whole, halves := xdr.NewWriter(make([]byte, 0, 64)), xdr.NewWriter(make([]byte, 0, 64))
	res.Encode(whole)
	res.EncodeHead(halves)
	res.EncodeTail(halves)
	if !bytes.Equal(whole.Bytes(), halves.Bytes()) {
		t.Errorf("%x in halves %x", whole.Bytes(), halves.Bytes())
	}
}
