package nfs4suite

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// READ, WRITE and a SETATTR of the size accept only valid stateids with the right access (RFC
// 8881 §8.2.3, §9.1.2).
func TestStateIDsOfData(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 1, "client")
		other := newSession(t, site, 1, "other")
		s.makeFile("file")
		second := s.makeFile("second")
		o := s.open(openArgs("file", "owner", both, 0))
		old := o.Stateid
		o = s.open(openArgs("file", "owner", both, 0))
		reader, writer := s.open(openArgs("file", "reader", read, 0)), s.open(openArgs("file", "writer", write, 0))
		id := s.lock(&o, "locker", wire.ReadLt, 0, 1)
		readerLock := s.lock(&reader, "locker", wire.ReadLt, 5, 1)
		closed := s.open(openArgs("file", "closed", both, 0))
		s.close(&closed)
		const bad, mode = wire.NFS4ErrBadStateID, wire.NFS4ErrOpenMode
		never := o.Stateid
		never.Other[0] ^= 1
		for _, c := range []struct {
			what        string
			id          wire.StateID4
			read, write wire.NFSStat4
		}{
			{"anonymous", anonymous, ok, ok}, {"bypass", bypass, ok, ok}, {"current, which is none", current, bad, bad}, {"invalid", invalid, bad, bad},
			{"all ones with another seqid", seqid(bypass, 5), bad, bad}, {"all zeros with another seqid", seqid(anonymous, 5), bad, bad},
			{"an open", o.Stateid, ok, ok}, {"an open with seqid 0", seqid(o.Stateid, 0), ok, ok}, {"an old one", old, wire.NFS4ErrOldStateID, wire.NFS4ErrOldStateID},
			{"a later one", seqid(o.Stateid, 3), bad, bad}, {"a much later one", seqid(o.Stateid, 1<<31), bad, bad},
			{"an open to read", reader.Stateid, ok, mode}, {"an open to write", writer.Stateid, ok, ok}, // RFC 7530 §9.1.6: an open to write may read
			{"a lock", id, ok, ok}, {"a lock with seqid 0", seqid(id, 0), ok, ok}, {"a later lock", seqid(id, 2), bad, bad},
			{"a lock by way of an open to read", readerLock, ok, mode}, {"one that was closed", closed.Stateid, bad, bad}, {"of another life", never, bad, bad},
		} {
			s.want("READ: "+c.what, c.read, putFH(o.fh), readOp(c.id, 0, 1))
			s.want("WRITE: "+c.what, c.write, putFH(o.fh), writeOp(c.id, 0, "0"))
			s.want("SETATTR: "+c.what, c.write, putFH(o.fh), setattr(c.id, attrs().size(10)))
			if c.id == anonymous || c.id == bypass {
				continue
			}
			s.want("READ of another file: "+c.what, bad, putFH(second), readOp(c.id, 0, 1))
			s.want("WRITE of another file: "+c.what, bad, putFH(second), writeOp(c.id, 0, "0"))
			other.want("READ by another client: "+c.what, wire.NFS4ErrBadStateID, putFH(o.fh), readOp(c.id, 0, 1))
			other.want("WRITE by another client: "+c.what, wire.NFS4ErrBadStateID, putFH(o.fh), writeOp(c.id, 0, "0"))
			other.want("SETATTR by another client: "+c.what, wire.NFS4ErrBadStateID, putFH(o.fh), setattr(c.id, attrs().size(10)))
		}
		if got := s.bytesOf(o.fh); got != content {
			t.Errorf("the file holds %q", got)
		}
	})
}

// An open stays valid when the mode of its file changes.
func TestOpenOutlivesTheMode(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 1, "client")
		s.makeFile("file")
		user := newSession(t, site, 1, "user")
		user.UID, user.GID = 1000, 1000
		o := user.open(openArgs("file", "owner", both, 0))
		s.must("SETATTR", putFH(o.fh), setattr(anonymous, attrs().mode(0)))
		user.want("READ and WRITE", ok, putFH(o.fh), readOp(o.Stateid, 0, 1), writeOp(o.Stateid, 0, "0"), setattr(o.Stateid, attrs().size(10)))
		user.want("READ without", wire.NFS4ErrAccess, putFH(o.fh), readOp(anonymous, 0, 1))
		user.want("WRITE without", wire.NFS4ErrAccess, putFH(o.fh), writeOp(anonymous, 0, "0"))
		user.refused("OPEN", wire.NFS4ErrAccess, openArgs("file", "owner2", read, 0))
		user.refused("OPEN again by the same owner", wire.NFS4ErrAccess, openArgs("file", "owner", read, 0))
		user.want("SETATTR of the mode", wire.NFS4ErrPerm, putFH(o.fh), setattr(anonymous, attrs().mode(0o666)))
	})
}

func TestReadAndWrite(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 1, "client")
		s.makeFile("file")
		o := s.open(openArgs("file", "owner", both, 0))
		for _, c := range []struct {
			offset uint64
			count  uint32
			want   string
			eof    bool
		}{
			{0, 10, content, true}, {0, 5, "01234", false}, {5, 100, "56789", true}, {0, 0, "", false}, {10, 0, "", true}, {10, 1, "", true}, {11, 1, "", true},
			{1 << 40, 1, "", true}, {1<<63 - 1, 1, "", true}, {1 << 63, 1, "", true}, {toEnd, 1<<32 - 1, "", true}, {0, 1<<32 - 1, content, true},
		} {
			for _, id := range []wire.StateID4{o.Stateid, anonymous} {
				r := s.do(putFH(o.fh), readOp(id, c.offset, c.count))
				if r.Status != ok {
					t.Errorf("READ of %d at %d: %v", c.count, c.offset, r.Status)
					continue
				}
				var res wire.Read4Res
				r.Ops[2].Into(t, &res)
				if string(res.ResOK.Data.Data) != c.want || res.ResOK.EOF != c.eof && c.count > 0 {
					t.Errorf("READ of %d at %d: %q, eof %v", c.count, c.offset, res.ResOK.Data.Data, res.ResOK.EOF)
				}
			}
		}
		change := s.number(o.fh, wire.Fattr4Change)
		s.want("WRITE of nothing", ok, putFH(o.fh), writeOp(o.Stateid, 5, ""))
		s.want("WRITE of nothing behind the end", ok, putFH(o.fh), writeOp(o.Stateid, 50, ""))
		if n := s.number(o.fh, wire.Fattr4Size); n != 10 || s.number(o.fh, wire.Fattr4Change) != change {
			t.Errorf("size %d after nothing was written", n)
		}
		for _, offset := range []uint64{1<<63 - 1, 1 << 63, toEnd} {
			for _, id := range []wire.StateID4{o.Stateid, anonymous} {
				if r := s.do(putFH(o.fh), writeOp(id, offset, "xx")); r.Status != wire.NFS4ErrFBig && r.Status != wire.NFS4ErrInvalid {
					t.Errorf("WRITE at %d: %v", offset, r.Status)
				}
			}
			if r := s.do(putFH(o.fh), setattr(o.Stateid, attrs().size(max(offset, 1<<63)))); r.Status != wire.NFS4ErrFBig && r.Status != wire.NFS4ErrInvalid {
				t.Errorf("a size of %d: %v", offset, r.Status)
			}
			s.want("COMMIT", ok, putFH(o.fh), commit(offset, 1<<32-1))
		}
		for _, stable := range []wire.StableHow4{wire.Unstable4, wire.DataSync4, wire.FileSync4} {
			w := writeOp(o.Stateid, 10, "abc")
			w.Args.(*wire.Write4Args).Stable = stable
			r := s.must("WRITE", putFH(o.fh), w, commit(0, 0), commit(5, 10))
			var res wire.Write4Res
			r[1].Into(t, &res)
			var done wire.Commit4Res
			r[2].Into(t, &done)
			if res.ResOK.Count != 3 || res.ResOK.Committed < stable || res.ResOK.Writeverf != done.ResOK.Writeverf {
				t.Errorf("%v: %+v, committed under %x", stable, res.ResOK, done.ResOK.Writeverf)
			}
		}
		bad := encoded(&wire.Write4Args{Stateid: o.Stateid})
		bad[16+8+3] = 3
		s.want("a stability that there is not", wire.NFS4ErrBadXDR, putFH(o.fh), op(wire.OpWrite, bad))
		s.want("less data than is counted", wire.NFS4ErrBadXDR, putFH(o.fh), op(wire.OpWrite, append(bad[:16+8], words(0, 5000)...)))
		if n := s.number(o.fh, wire.Fattr4Change); n == change {
			t.Error("change stays when a file is written")
		}
	})
}

// SETATTR, and the other operations that set attributes, check each attribute (RFC 8881 §18.30).
func TestSetattr(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 1, "client")
		all := s.populate()
		for _, o := range objects {
			for _, c := range wrongAttributes() {
				r := s.want(o.name+": "+c.what, c.want, putFH(all[o.name]), op(wire.OpSetattr, &wire.Setattr4Args{ObjAttributes: c.f}))
				var res wire.Setattr4Res
				r[1].Into(t, &res)
				if !res.Attrsset.IsEmpty() {
					t.Errorf("%s: %v was set", c.what, res.Attrsset)
				}
			}
			if o.kind == wire.NF4Lnk {
				continue
			}
			before := s.number(all[o.name], wire.Fattr4Change)
			r := s.must("SETATTR", putFH(all[o.name]), setattr(anonymous, attrs().mode(0o711)))
			var res wire.Setattr4Res
			r[1].Into(t, &res)
			if res.Attrsset != wire.Bits(wire.Fattr4Mode) || s.number(all[o.name], wire.Fattr4Mode) != 0o711 || s.number(all[o.name], wire.Fattr4Change) == before {
				t.Errorf("%s: %v was set", o.name, res.Attrsset)
			}
		}
		fh := all["file"]
		s.want("nothing", ok, putFH(fh), setattr(anonymous, attrs()))
		time := func(sec, nsec uint32) raw { return words(1, 0, sec, nsec) }
		s.want("times", ok, putFH(fh), setattr(anonymous, attrs().put(wire.Fattr4TimeAccessSet, time(100, 5)).put(wire.Fattr4TimeModifySet, time(200, 6))))
		if got := string(s.attribute(fh, wire.Fattr4TimeModify)); got != string(words(0, 200, 6)) {
			t.Errorf("time_modify is %x", got)
		}
		if got := string(s.attribute(fh, wire.Fattr4TimeAccess)); got != string(words(0, 100, 5)) {
			t.Errorf("time_access is %x", got)
		}
		s.want("too many nanoseconds", wire.NFS4ErrInvalid, putFH(fh), setattr(anonymous, attrs().put(wire.Fattr4TimeModifySet, time(0, 1e9))))
		s.want("a time of a kind that there is not", wire.NFS4ErrBadXDR, putFH(fh), setattr(anonymous, attrs().put(wire.Fattr4TimeModifySet, words(2))))
		s.want("the server's time", ok, putFH(fh), setattr(anonymous, attrs().put(wire.Fattr4TimeModifySet, words(0))))
		s.want("owner and group by number", ok, putFH(fh), setattr(anonymous, attrs().put(wire.Fattr4Owner, append(words(4), "1000"...)).put(wire.Fattr4OwnerGroup, append(words(4), "2000"...))))
		if got := string(s.attribute(fh, wire.Fattr4Owner)); got != string(append(words(4), "1000"...)) {
			t.Errorf("owner is %q", got)
		}
		for _, n := range []uint64{0, 5, 1 << 32, 10} {
			s.must("a size", putFH(fh), setattr(anonymous, attrs().size(n)))
			if got := s.number(fh, wire.Fattr4Size); got != n {
				t.Errorf("size %d, not %d", got, n)
			}
		}
		for _, name := range []string{"", "-1", "4294967296", "1x"} {
			v := append(words(uint32(len(name))), name...)
			v = append(v, make([]byte, (4-len(name)%4)%4)...)
			want := wire.NFS4ErrBadOwner
			if name == "" {
				want = wire.NFS4ErrInvalid
			}
			s.want("owner "+name, want, putFH(fh), setattr(anonymous, attrs().put(wire.Fattr4Owner, v)))
		}
	})
}

// GETATTR returns each supported attribute, and VERIFY and NVERIFY compare it (RFC 8881 §18.7,
// §18.15, §18.31).
func TestGetattrAndVerify(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 1, "client")
		all := s.populate()
		for _, o := range objects {
			fh := all[o.name]
			var supported wire.Bitmap4
			supported.Decode(decoderOf(s.attribute(fh, wire.Fattr4SupportedAttrs)))
			for n := uint32(0); n < 96; n++ {
				r := s.do(putFH(fh), getattr(n))
				if n == wire.Fattr4TimeAccessSet || n == wire.Fattr4TimeModifySet {
					is(t, "an attribute that can only be set", r.Status, wire.NFS4ErrInvalid)
					continue
				}
				if r.Status != ok {
					t.Errorf("attribute %d of %s: %v", n, o.name, r.Status)
					continue
				}
				var res wire.Getattr4Res
				r.Ops[2].Into(t, &res)
				f := res.ResOK.Attributes
				if f.Attrmask.Has(n) != supported.Has(n) {
					t.Errorf("attribute %d of %s is there: %v, and supported: %v", n, o.name, f.Attrmask.Has(n), supported.Has(n))
				}
				verifies, nverifies := ok, wire.NFS4ErrSame
				switch {
				case !supported.Has(n):
					f = attrs().put(n, words(0)).f
					verifies, nverifies = wire.NFS4ErrAttrNotSupp, wire.NFS4ErrAttrNotSupp
				case n == wire.Fattr4RdattrError:
					verifies, nverifies = wire.NFS4ErrInvalid, wire.NFS4ErrInvalid
				case n == wire.Fattr4SpaceAvail || n == wire.Fattr4SpaceFree || n == wire.Fattr4FilesFree || n == wire.Fattr4FilesAvail || n == wire.Fattr4TimeAccess:
					continue // these may change between two calls
				}
				s.want("VERIFY", verifies, putFH(fh), verify(wire.OpVerify, f))
				s.want("NVERIFY", nverifies, putFH(fh), verify(wire.OpNverify, f))
				if verifies == ok {
					short := f
					short.AttrVals = f.AttrVals[:len(f.AttrVals)-4]
					s.want("VERIFY of too little", wire.NFS4ErrBadXDR, putFH(fh), verify(wire.OpVerify, short))
					long := f
					long.AttrVals = append(append([]byte(nil), f.AttrVals...), 0, 0, 0, 0)
					s.want("NVERIFY of too much", wire.NFS4ErrBadXDR, putFH(fh), verify(wire.OpNverify, long))
				}
			}
			s.want("VERIFY of another size", wire.NFS4ErrNotSame, putFH(fh), verify(wire.OpVerify, attrs().size(12345).f))
			s.want("NVERIFY of another size", ok, putFH(fh), verify(wire.OpNverify, attrs().size(12345).f))
			s.want("VERIFY of nothing", ok, putFH(fh), verify(wire.OpVerify, attrs().f))
			s.want("NVERIFY of nothing", wire.NFS4ErrSame, putFH(fh), verify(wire.OpNverify, attrs().f))
			s.want("VERIFY of what can only be set", wire.NFS4ErrInvalid, putFH(fh), verify(wire.OpVerify, attrs().put(wire.Fattr4TimeModifySet, words(0)).f))
			// The mask has more words than the server knows. The reply leaves out the unknown
			// attributes.
			r := s.must("GETATTR", putFH(fh), op(wire.OpGetattr, words(6, 1<<wire.Fattr4Type, 0, 0, 0, 1, 1<<31)))
			var res wire.Getattr4Res
			r[1].Into(t, &res)
			if f := res.ResOK.Attributes; f.Attrmask != wire.Bits(wire.Fattr4Type) || len(f.AttrVals) != 4 {
				t.Errorf("%+v", f)
			}
			s.want("GETATTR of more words than are there", wire.NFS4ErrBadXDR, putFH(fh), op(wire.OpGetattr, words(100, 0)))
			s.want("SETATTR of an attribute beyond", wire.NFS4ErrAttrNotSupp, putFH(fh), op(wire.OpSetattr, words(0, 0, 0, 0, 5, 0, 0, 0, 0, 1, 4, 0)))
			s.want("VERIFY of an attribute beyond", wire.NFS4ErrAttrNotSupp, putFH(fh), op(wire.OpVerify, words(5, 0, 0, 0, 0, 1, 4, 0)))
		}
	})
}

// ACCESS answers only for the rights in the request that it can check (RFC 8881 §18.1).
func TestAccess(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 1, "client")
		all := s.populate()
		for _, o := range objects {
			for bits := uint32(0); bits < 64; bits++ {
				r := s.must("ACCESS", putFH(all[o.name]), access(bits))
				var res wire.Access4Res
				r[1].Into(t, &res)
				if a := res.ResOK; a.Supported&^bits != 0 || a.Access&^a.Supported != 0 {
					t.Errorf("%s: asked %#x, got %+v", o.name, bits, a)
				}
			}
			for _, bits := range []uint32{64, 1 << 31, 0xffffffff} {
				s.want("bits that there are not", wire.NFS4ErrInvalid, putFH(all[o.name]), access(bits))
			}
		}
	})
}
