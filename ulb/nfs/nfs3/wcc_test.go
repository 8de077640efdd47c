package nfs3_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// A client with wcc_data assumes that only its own change happened between the attributes
// before and after. So the server must report both only if no other change came between. With
// writers through two exports of a file, no reply shows a state that lies between the two
// states of another reply (RFC 1813 §2.6).
func TestNothingComesBetweenTheLooksOfAChange(t *testing.T) {
	const calls = 500 // calls of each writer
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o777); err != nil {
		t.Fatal(err)
	}
	var trees []*local.FS
	for _, root := range []string{dir, filepath.Join(dir, "sub")} {
		fs, err := local.New(local.Config{Root: root, StateDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { fs.Close() })
		trees = append(trees, fs)
	}
	s := newSiteOver(t, nil, trees[0])
	beneath := &export.Export{Name: "/sub", FS: trees[1], Options: export.Options{Squash: export.NoSquash}}
	if err := s.table.Replace([]*export.Export{s.export, beneath}); err != nil {
		t.Fatal(err)
	}
	op := &vfs.Op{Cred: &vfs.Cred{}}
	sub, err := trees[0].Lookup(op, trees[0].Root(), []byte("sub"), new(vfs.Attr))
	if err != nil {
		t.Fatal(err)
	}
	upper := s.create(wire.FileHandle3{Data: s.table.Seal(nil, s.export, sub.Handle)}, "f", 0o666)
	f, err := trees[1].Lookup(op, trees[1].Root(), []byte("f"), new(vfs.Attr))
	if err != nil {
		t.Fatal(err)
	}
	lower := wire.FileHandle3{Data: s.table.Seal(nil, beneath, f.Handle)}

	type told struct {
		before, after uint64 // ctimes; 0 if the reply has none
	}
	stamp := func(c wire.NFSTime3) uint64 { return uint64(c.Seconds)*1e9 + uint64(c.Nanoseconds) }
	all := make([][]told, 4)
	var writers sync.WaitGroup
	for i := range all {
		c := *s
		c.conn, c.xid = s.rpc.NewConn(netip.AddrPortFrom(netip.MustParseAddr("10.1.2.3"), uint16(800+i)), netip.AddrPort{}, "tcp", true), uint32(i+1)<<20
		fh := []wire.FileHandle3{upper, lower}[i%2]
		writers.Go(func() {
			for n := range calls {
				var wcc wire.WccData
				if n%2 == 0 {
					res := c.write(fh, uint64(i*7919+n*31)%65536, fmt.Sprint(n), wire.Unstable)
					want(t, "WRITE", res.Status, wire.NFS3OK)
					wcc = res.ResOK.FileWcc
				} else {
					var res wire.Setattr3Res
					size := wire.Sattr3{Size: wire.SetSize3{SetIt: true, Size: uint64(i*131+n*17) % 65536}}
					c.call(wire.ProcSetattr, &wire.Setattr3Args{Object: fh, NewAttributes: size}, &res)
					want(t, "SETATTR", res.Status, wire.NFS3OK)
					wcc = res.ResOK.ObjWcc
				}
				a := told{after: stamp(wcc.After.Attributes.Ctime)}
				if wcc.Before.AttributesFollow {
					a.before = stamp(wcc.Before.Attributes.Ctime)
				}
				all[i] = append(all[i], a)
			}
		})
	}
	writers.Wait()
	atomic := 0
	for i, of := range all {
		for _, a := range of {
			if a.before == 0 {
				continue
			}
			atomic++
			for j, others := range all {
				for _, b := range others {
					if a.before < b.after && b.after < a.after {
						t.Fatalf("between the looks of a change by writer %d, of ctimes %d and %d, writer %d was told %d", i, a.before, a.after, j, b.after)
					}
				}
			}
		}
	}
	if atomic < calls {
		t.Errorf("%d of %d answers tell what was before: this is no proof", atomic, len(all)*calls)
	}
}
