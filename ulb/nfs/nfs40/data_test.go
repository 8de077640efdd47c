package nfs40_test

import (
	"strings"
	"testing"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

func TestReadOfEachKind(t *testing.T) {
	want := map[string]status{"file": ok, "dir": wire.NFS4ErrIsDir}
	byKind(t, want, wire.NFS4ErrInvalid, read(anonymous, 0, 100))
	byKind(t, want, wire.NFS4ErrInvalid, read(bypass, 0, 100))
}

func TestWriteOfEachKind(t *testing.T) {
	want := map[string]status{"file": ok, "dir": wire.NFS4ErrIsDir}
	byKind(t, want, wire.NFS4ErrInvalid, write(anonymous, 0, "x"))
	byKind(t, want, wire.NFS4ErrInvalid, write(bypass, 0, "x"))
}

func TestCommitOfEachKind(t *testing.T) {
	byKind(t, map[string]status{"file": ok, "dir": wire.NFS4ErrIsDir}, wire.NFS4ErrInvalid, commit(0, 0))
}

func TestRead(t *testing.T) {
	n := len(content)
	for _, c := range []struct {
		offset uint64
		count  uint32
		want   string
		eof    bool
	}{
		{0, uint32(n), content, true},
		{0, 1000, content, true},
		{2, 3, content[2:5], false},
		{uint64(n), 10, "", true},
		{1 << 40, 10, "", true},
		{1<<64 - 1, 10, "", true},
		{0, 0, "", false},
		{uint64(n) - 1, 1, content[n-1:], true},
	} {
		var res wire.Read4Res
		last(t, newPeer(t).run(t, ok, join(at("file"), read(anonymous, c.offset, c.count))...), &res)
		if got := string(res.ResOK.Data.Data); got != c.want || res.ResOK.EOF != c.eof {
			t.Errorf("%d bytes at %d: %q, end %v", c.count, c.offset, got, res.ResOK.EOF)
		}
	}
}

func TestWrite(t *testing.T) {
	p := newPeer(t)
	var res wire.Write4Res
	last(t, p.run(t, ok, join(at("file"), write(anonymous, 3, "xyz"))...), &res)
	if res.ResOK.Count != 3 || res.ResOK.Committed != wire.FileSync4 {
		t.Errorf("%+v", res.ResOK)
	}
	var got wire.Read4Res
	last(t, p.run(t, ok, join(at("file"), read(anonymous, 0, 100))...), &got)
	if want := content[:3] + "xyz" + content[6:]; string(got.ResOK.Data.Data) != want {
		t.Errorf("%q", got.ResOK.Data.Data)
	}
	last(t, p.run(t, ok, join(at("file"), write(anonymous, 0, ""))...), &res)
	if res.ResOK.Count != 0 {
		t.Errorf("nothing written: %+v", res.ResOK)
	}
	var done wire.Commit4Res
	last(t, p.run(t, ok, join(at("file"), commit(0, 0))...), &done)
	if done.ResOK.Writeverf != res.ResOK.Writeverf {
		t.Error("COMMIT has another verifier than WRITE")
	}
}

// No range can go beyond offset 2^64-1.
func TestRangesThatOverflow(t *testing.T) {
	table(t, []row{
		{name: "WRITE", ops: join(at("file"), write(anonymous, 1<<64-1, "xy")), want: wire.NFS4ErrInvalid, or: wire.NFS4ErrFBig},
		{name: "WRITE beyond the file system", ops: join(at("file"), write(anonymous, 1<<63, "xy")), want: wire.NFS4ErrFBig, or: wire.NFS4ErrInvalid},
		{name: "COMMIT", ops: join(at("file"), commit(1<<64-1, 1000)), want: wire.NFS4ErrInvalid},
		{name: "COMMIT behind the end", ops: join(at("file"), commit(1<<40, 10)), want: ok},
	})
}

// Stateids that the server never gave out are invalid (RFC 7530 §9.1.4.3).
func TestStateIDsThatAreNone(t *testing.T) {
	for name, id := range map[string]wire.StateID4{
		"zeros with a number": {Seqid: 1},
		"ones with a number":  {Seqid: 1, Other: bypass.Other},
		"ones with zero":      {Other: bypass.Other},
		"zeros with ones":     {Seqid: 0xffffffff},
	} {
		for label, o := range map[string]op{
			"READ": read(id, 0, 1), "WRITE": write(id, 0, "x"), "SETATTR": setattr(id, size(0)),
			"CLOSE": {Number: wire.OpClose, Args: &wire.Close4Args{Seqid: 1, OpenStateid: id}},
			"LOCKU": {Number: wire.OpLocku, Args: &wire.Locku4Args{Locktype: wire.ReadLt, Seqid: 1, LockStateid: id, Length: 1}},
		} {
			t.Run(label+" "+name, func(t *testing.T) {
				newPeer(t).run(t, wire.NFS4ErrBadStateID, join(at("file"), o)...)
			})
		}
	}
}

// listed returns the names that READDIR lists, page by page.
func (p *peer) listed(t *testing.T, most uint32, path ...string) (names []string) {
	t.Helper()
	var cookie uint64
	var verf wire.Verifier4
	for range 100 {
		var res wire.Readdir4Res
		last(t, p.run(t, ok, join(at(path...), readdir(cookie, verf, most, wire.Fattr4Type, wire.Fattr4RdattrError))...), &res)
		verf = res.ResOK.Cookieverf
		for e := (wire.Entry4{}); res.ResOK.Reply.Entries.Next(&e); {
			names = append(names, string(e.Name))
			if cookie = e.Cookie; cookie <= 2 {
				t.Errorf("cookie %d is reserved", cookie)
			}
		}
		if res.ResOK.Reply.EOF {
			return names
		}
	}
	t.Fatal("the directory has no end")
	return nil
}

func TestReaddir(t *testing.T) {
	byKind(t, map[string]status{"dir": ok}, wire.NFS4ErrNotDir, readdir(0, wire.Verifier4{}, 4096))
	p := newPeer(t)
	if got := p.listed(t, 4096, "empty"); len(got) != 0 {
		t.Errorf("an empty directory has %q", got)
	}
	for i := range 50 {
		p.run(t, ok, putRootFH, lookup("empty"), create(strings.Repeat("n", 1+i), wire.NF4Dir, mode(0o755)))
	}
	for _, most := range []uint32{256, 1000, 32768} {
		seen := map[string]int{}
		for _, name := range p.listed(t, most, "empty") {
			seen[name]++
		}
		for i := range 50 {
			if n := seen[strings.Repeat("n", 1+i)]; n != 1 {
				t.Errorf("in pages of %d a name of %d bytes came %d times", most, 1+i, n)
			}
		}
		if len(seen) != 50 {
			t.Errorf("in pages of %d there are %d names", most, len(seen))
		}
	}
}

func TestReaddirThatCannotBe(t *testing.T) {
	none := wire.Verifier4{}
	table(t, []row{
		{name: "no room", ops: []op{putRootFH, readdir(0, none, 0)}, want: wire.NFS4ErrTooSmall},
		{name: "no room for an entry", ops: []op{putRootFH, readdir(0, none, 20)}, want: wire.NFS4ErrTooSmall},
		{name: "reserved cookie 1", ops: []op{putRootFH, readdir(1, none, 4096)}, want: wire.NFS4ErrBadCookie},
		{name: "reserved cookie 2", ops: []op{putRootFH, readdir(2, none, 4096)}, want: wire.NFS4ErrBadCookie},
		{name: "attribute that can only be set", ops: []op{putRootFH, readdir(0, none, 4096, wire.Fattr4TimeModifySet)}, want: wire.NFS4ErrInvalid},
	})
}
