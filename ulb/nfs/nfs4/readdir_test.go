package nfs4_test

import (
	"fmt"
	"slices"
	"syscall"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// sizeOf returns the length of a READDIR4resok in bytes.
func sizeOf(r *wire.Readdir4ResOK) int {
	w := xdr.NewWriter(make([]byte, 0, 1<<20))
	r.Encode(w)
	return w.Len()
}

// A result is never longer than maxcount, and contains as many entries as fit.
func TestReaddirFillsItsRoom(t *testing.T) {
	p := treeSite(t, "/data").Peer(0)
	attrs := []uint32{wire.Fattr4RdattrError, wire.Fattr4FileID, wire.Fattr4Owner}
	whole := list(t, p, []string{"data"}, 1<<20, attrs...)
	for maxcount := uint32(16); maxcount < 400; maxcount++ {
		r := p.Compound(append(at(), readdir(0, maxcount, attrs...))...)
		if r.Status == wire.NFS4ErrTooSmall {
			if maxcount > 90 {
				t.Errorf("maxcount %d: %v", maxcount, r.Status)
			}
			continue
		}
		var res wire.Readdir4Res
		r.Ops[len(r.Ops)-1].Into(t, &res)
		size := sizeOf(&res.ResOK)
		var e wire.Entry4
		n := 0
		for entries := res.ResOK.Reply.Entries; entries.Next(&e); n++ {
			if string(e.Name) != whole[n].name || e.Cookie != whole[n].cookie {
				t.Errorf("maxcount %d: entry %d is %q", maxcount, n, e.Name)
			}
		}
		next := 0
		if n < len(whole) {
			next = 4 + 8 + 4 + len(whole[n].name) + xdr.Pad(len(whole[n].name)) + 4 + 8 + 4 + len(whole[n].values)
		}
		if size > int(maxcount) || size+next <= int(maxcount) && n < len(whole) || res.ResOK.Reply.EOF != (n == len(whole)) {
			t.Errorf("maxcount %d: %d entries in %d bytes, eof %v", maxcount, n, size, res.ResOK.Reply.EOF)
		}
	}
}

// dircount limits the entries by the size of their names and cookies. The first entry is always
// returned (RFC 8881 §18.23.3).
func TestReaddirMindsDircount(t *testing.T) {
	p := treeSite(t, "/data").Peer(0)
	for dircount, want := range map[uint32]int{1: 1, 16: 1, 35: 1, 36: 2, 51: 2, 52: 3, 1000: 4, 0: 4} {
		args := &wire.Readdir4Args{Dircount: dircount, Maxcount: 4096, AttrRequest: wire.Bits(wire.Fattr4Type)}
		r := p.Compound(append(at(), nfs4test.Op{Number: wire.OpReaddir, Args: args})...)
		var res wire.Readdir4Res
		r.Ops[len(r.Ops)-1].Into(t, &res)
		var e wire.Entry4
		n := 0
		for entries := res.ResOK.Reply.Entries; entries.Next(&e); n++ {
		}
		if n != want {
			t.Errorf("dircount %d: %d entries", dircount, n)
		}
	}
}

func TestReaddirCookies(t *testing.T) {
	p := treeSite(t, "/data").Peer(0)
	all := list(t, p, []string{"data"}, 4096)
	var cookies []uint64
	for _, e := range all {
		if e.cookie <= 2 {
			t.Errorf("%s has cookie %d", e.name, e.cookie)
		}
		cookies = append(cookies, e.cookie)
	}
	slices.Sort(cookies)
	if len(slices.Compact(cookies)) != len(all) {
		t.Errorf("%v", cookies)
	}
	// If a client sends a verifier that the server never returned, it gets NFS4ERR_NOT_SAME.
	args := &wire.Readdir4Args{Cookie: all[0].cookie, Cookieverf: wire.Verifier4{1}, Dircount: 1000, Maxcount: 1000}
	if r := p.Compound(append(at(), nfs4test.Op{Number: wire.OpReaddir, Args: args})...); r.Status != wire.NFS4ErrNotSame {
		t.Errorf("another verifier: %v", r.Status)
	}
}

// blind is a file system whose listings lack the attributes of some names. A Lookup of these
// names fails with the given error.
type blind struct {
	vfs.FileSystem
	names map[string]error
}

func (b *blind) Unwrap() vfs.FileSystem { return b.FileSystem }

func (b *blind) ReadDir(op *vfs.Op, dir vfs.Handle, cookie uint64, plus bool, a *vfs.Attr, emit func(e *vfs.DirEntry) bool) (bool, error) {
	return b.FileSystem.ReadDir(op, dir, cookie, plus, a, func(e *vfs.DirEntry) bool {
		if _, hidden := b.names[string(e.Name)]; hidden {
			e.HasAttr, e.Handle, e.Attr = false, vfs.Handle{}, vfs.Attr{}
		}
		return emit(e)
	})
}

func (b *blind) Lookup(op *vfs.Op, dir vfs.Handle, name []byte, a *vfs.Attr) (vfs.Object, error) {
	if err := b.names[string(name)]; err != nil {
		return vfs.Object{}, err
	}
	return b.FileSystem.Lookup(op, dir, name, a)
}

// If the attributes of an entry cannot be read and the client asked for rdattr_error, the entry
// has the error. Otherwise the READDIR has it (RFC 8881 §18.23.3).
func TestReaddirTellsErrorsOfEntries(t *testing.T) {
	for _, c := range []struct {
		err    error
		failed wire.NFSStat4 // value of the entry's rdattr_error
		listed bool
	}{
		{syscall.EACCES, wire.NFS4ErrAccess, true},
		{syscall.EXDEV, wire.NFS4ErrAccess, true},
		{syscall.EIO, wire.NFS4ErrIO, true},
		{syscall.ENOENT, 0, false}, // removed meanwhile
		{syscall.ESTALE, 0, false},
		{nil, wire.NFS4OK, true}, // Lookup succeeds
	} {
		p := treeSiteOf(t, func(fs vfs.FileSystem) vfs.FileSystem {
			return &blind{fs, map[string]error{"empty": c.err}}
		}, "/data").Peer(1)
		want := []string{"dir", "empty", "file", "link"}
		if !c.listed {
			want = []string{"dir", "file", "link"}
		}
		all := list(t, p, []string{"data"}, 1000, wire.Fattr4RdattrError, wire.Fattr4FileID, wire.Fattr4Mode)
		if got := namesOf(all); !slices.Equal(got, want) {
			t.Errorf("%v: %v", c.err, got)
		}
		for _, e := range all {
			failed := wire.NFS4OK
			if e.name == "empty" {
				failed = c.failed
			}
			mask := wire.Bits(wire.Fattr4RdattrError, wire.Fattr4FileID, wire.Fattr4Mode)
			if failed != wire.NFS4OK {
				mask = wire.Bits(wire.Fattr4RdattrError)
			}
			if got := wire.NFSStat4(xdr.NewDecoder(e.values).Uint32()); e.mask != mask || got != failed {
				t.Errorf("%v: %s: %v with %v", c.err, e.name, got, e.mask)
			}
		}
		r := p.Compound(append(at(), readdir(0, 1000, wire.Fattr4Mode))...)
		if r.Status != c.failed {
			t.Errorf("%v without rdattr_error: %v, want %v", c.err, r.Status, c.failed)
		}
		// Attributes that the listing contains need no further call.
		if got := namesOf(list(t, p, []string{"data"}, 1000, wire.Fattr4RdattrError, wire.Fattr4MountedOnFileID)); len(got) != 4 {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}

// A listing returns the same attributes as GETATTR.
func TestReaddirReturnsTheAttributesOfGetattr(t *testing.T) {
	eachWay(t, func(t *testing.T, s *nfs4test.Site) {
		p := s.Peer(2)
		var all []uint32
		for _, w := range allAttributes {
			if !w.only {
				all = append(all, w.number)
			}
		}
		for _, path := range [][]string{nil, {"data"}} {
			for _, e := range list(t, p, path, 8000, all...) {
				mask, d := valuesOf(t, p, append(slices.Clone(path), e.name), all...)
				if mask != e.mask || string(d.Rest()) != string(e.values) {
					t.Errorf("%v/%s:\n%x\n%x", path, e.name, e.values, d.Rest())
				}
			}
		}
	})
}

// While other names are created and removed, a listing returns each lasting name exactly
// once.
func TestReaddirWhileNamesChange(t *testing.T) {
	s := treeSite(t, "/data")
	p := s.Peer(1)
	var cookie uint64
	seen := map[string]int{}
	for i := 0; ; i++ {
		r := p.Compound(append(at(), readdir(cookie, 60))...)
		if r.Status != wire.NFS4OK {
			t.Fatal(r.Status)
		}
		var res wire.Readdir4Res
		r.Ops[len(r.Ops)-1].Into(t, &res)
		var e wire.Entry4
		for entries := res.ResOK.Reply.Entries; entries.Next(&e); {
			seen[string(e.Name)]++
			cookie = e.Cookie
		}
		if res.ResOK.Reply.EOF || i > 100 {
			break
		}
		name := fmt.Sprintf("passing%d", i%2)
		if i < 8 {
			p.Compound(append(at(), create(wire.NF4Fifo, name, wire.FAttr4{}))...)
			p.Compound(append(at(), remove(name))...)
		}
	}
	for _, name := range []string{"dir", "empty", "file", "link"} {
		if seen[name] != 1 {
			t.Errorf("%s was listed %d times", name, seen[name])
		}
	}
}
