package nfs4suite

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/identity"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs40"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs41"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// A longest makes the server send its longest results. Peer.Compound holds each of them against
// nfs4test.LinuxRoom.
type longest struct {
	*nfs4test.Site
	t testing.TB
	// seen has the operations that have had a result other than an error without a body.
	seen map[wire.OpNum]bool
}

// newLongest returns a server whose names of users, groups and of itself are as long as names can be.
func newLongest(t testing.TB, seen map[wire.OpNum]bool) *longest {
	dir := t.TempDir()
	long := strings.Repeat("n", 250)
	for name, content := range map[string]string{"passwd": long + ":x:1000:1000:::\n", "group": long + ":x:1000:\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	names := identity.New(identity.Config{
		Domain: strings.Repeat("d", 250), Passwd: filepath.Join(dir, "passwd"), Group: filepath.Join(dir, "group"),
		Ask: func(context.Context, string, string) ([]byte, error) { return nil, nil },
	})
	site := nfs4test.New(t, nfs4test.Config{FS: newLocal(t), Identity: names, SendNames: true, Minors: func(m *state.Manager) [3]nfs4.Minor {
		old := nfs40.New(nfs40.Config{State: m})
		t.Cleanup(old.Close)
		name := []byte(strings.Repeat("o", 256))
		late := nfs41.New(nfs41.Config{State: m, Owner: name, Scope: name, Domain: string(name[:100]), Name: string(name[:100])})
		return [3]nfs4.Minor{old, late, late}
	}})
	var all []*export.Export
	for _, e := range site.Exports.All() {
		all = append(all, &export.Export{Name: e.Name, FS: e.FS, Options: e.Options, Security: export.Securities})
		e.Retire()
	}
	if err := site.Exports.Replace(all); err != nil {
		t.Fatal(err)
	}
	return &longest{site, t, seen}
}

// peer returns a connection of a minor version. If placed is true, its eligible results are placed outside the
// reply, as over RDMA.
func (l *longest) peer(minor uint32, placed bool) *nfs4test.Peer {
	p := l.Peer(minor)
	if placed {
		p.Places = []int{1 << 20}
		p.Room = rpc.Room{Inline: 4096, ReplyChunk: 2 << 20}
	}
	return p
}

// note takes down the operations of a compound.
func (l *longest) note(r *nfs4test.Result) {
	for _, o := range r.Ops {
		if o.Status == ok || o.Size > 8 {
			l.seen[o.Number] = true
		}
	}
}

// No result of the server is longer than a Linux client has room for: neither over TCP nor over RDMA, in
// no minor version. There is a test for each operation that Linux's clients send.
func TestLongestResultsFitALinuxClient(t *testing.T) {
	seen := map[wire.OpNum]bool{}
	for _, way := range []string{"tcp", "rdma"} {
		t.Run(way+" 4.0", func(t *testing.T) { newLongest(t, seen).version40(way == "rdma") })
		for minor := uint32(1); minor <= 2; minor++ {
			t.Run(way+" 4."+string('0'+rune(minor)), func(t *testing.T) { newLongest(t, seen).version41(minor, way == "rdma") })
		}
	}
	if len(seen) == 0 {
		return // the flag -run selects none of these tests
	}
	for n := wire.OpAccess; n <= wire.OpRemoveXattr; n++ {
		// DELEGRETURN has no result to test, because the server grants no delegations.
		if room, has := nfs4test.LinuxRoom(op(n)); has && room < 1<<30 && !seen[n] && n != wire.OpDelegreturn {
			t.Errorf("no longest result of %v", n)
		}
	}
}

// version41 sends the operations of minor versions 1 and 2.
func (l *longest) version41(minor uint32, placed bool) {
	p := l.peer(minor, placed)
	name := strings.Repeat("c", 1024)
	args := exchangeArgs(name, 1)
	var id wire.ExchangeID4Res
	r := p.Compound(op(wire.OpExchangeID, args))
	l.note(r)
	r.Ops[0].Into(l.t, &id)
	create := createArgs(id.ResOK.Clientid, id.ResOK.Sequenceid)
	create.ForeChanAttrs.Maxresponsesize, create.ForeChanAttrs.Maxrequestsize = 2<<20, 2<<20
	create.ForeChanAttrs.RDMAIrd = wire.OptUint32{Present: true, Value: 1}
	create.BackChanAttrs.RDMAIrd = create.ForeChanAttrs.RDMAIrd
	s := sessionOf(p, create)
	l.seen[wire.OpCreateSession] = true
	do := func(ops ...nfs4test.Op) *nfs4test.Result {
		l.t.Helper()
		r := s.do(ops...)
		l.note(r)
		return r
	}
	do(op(wire.OpReclaimComplete, words(0)))
	o := s.open(creating(openArgs(strings.Repeat("f", 255), strings.Repeat("O", 1024), both, 0), wire.Exclusive41, attrs().mode(0o666).f, 1))
	l.objects(do, o.fh, o.Stateid)
	locked := s.lock(&o, strings.Repeat("L", 1024), wire.WriteLt, 1, 1)
	do(putFH(o.fh), lockNew(o.Stateid, "a", wire.WriteLt, 0, toEnd))
	do(putFH(o.fh), lockTest("a", wire.WriteLt, 0, toEnd))
	do(putFH(o.fh), unlock(locked, 1, 1), op(wire.OpFreeStateID, &wire.FreeStateID4Args{Stateid: seqid(locked, 0)}))
	do(op(wire.OpTestStateID, append(words(1), encoded(&o.Stateid)...)))
	do(putRoot, noName)
	if minor == 2 {
		l.version42(do, &o)
	}
	s.must("OPEN to read", putRoot, open(openArgs(strings.Repeat("f", 255), strings.Repeat("O", 1024), read, 0)))
	do(putFH(o.fh), downgrade(seqid(o.Stateid, 0), read, 0), closeOp(seqid(o.Stateid, 0)))
	l.note(p.Compound(op(wire.OpBindConnToSession, &wire.BindConnToSession4Args{Sessid: s.id, Dir: wire.Cdfc4ForeOrBoth})))
	l.note(p.Compound(destroySession(s.id)))
	l.note(p.Compound(destroyClient(s.client)))
}

// objects sends the operations of all minor versions on objects. fh is an open file, and id its stateid.
func (l *longest) objects(do func(ops ...nfs4test.Op) *nfs4test.Result, fh []byte, id wire.StateID4) {
	owner := raw(append(words(4), "1000"...))
	do(putFH(fh), setattr(id, attrs().size(3<<20).mode(0o777).put(wire.Fattr4Owner, owner).put(wire.Fattr4OwnerGroup, owner).
		put(wire.Fattr4TimeAccessSet, words(0)).put(wire.Fattr4TimeModifySet, words(0))))
	for _, set := range nfs4test.LinuxAttributes() {
		do(putFH(fh), op(wire.OpGetattr, &wire.Getattr4Args{AttrRequest: set}))
	}
	text := strings.Repeat("t", 4000)
	link4 := create(wire.NF4Lnk, "link")
	link4.Args.(*wire.Create4Args).Objtype.Linkdata.Data = []byte(text)
	do(putRoot, link4, getFH, readlink)
	do(putRoot, create(wire.NF4Dir, "dir"), lookupp, saveFH, op(wire.OpRestoreFH), lookup("dir"), access(63))
	do(putRoot, saveFH, rename("link", "renamed"))
	do(putFH(fh), saveFH, putRoot, link("another"))
	do(putRoot, remove("another"))
	do(putFH(fh), writeOp(id, 0, strings.Repeat("w", 1<<20)), commit(0, 0))
	do(putFH(fh), readOp(id, 0, 1<<20))
	do(putFH(fh), readOp(id, 0, 1<<20-3))
	for i := range 100 {
		do(putRoot, lookup("dir"), create(wire.NF4Dir, strings.Repeat("e", 200+i%50)+string(rune('a'+i/50))))
	}
	for _, count := range []uint32{1000, 1001, 4096, 8192, 1 << 20} {
		do(putRoot, lookup("dir"), readdir(0, count, wire.Fattr4RdattrError, wire.Fattr4Filehandle, wire.Fattr4Owner, wire.Fattr4OwnerGroup, wire.Fattr4Size))
	}
	do(putRoot, secinfo("dir"))
}

// version42 sends the further operations of minor version 2.
func (l *longest) version42(do func(ops ...nfs4test.Op) *nfs4test.Result, o *opened) {
	masked := create(wire.NF4Dir, "masked")
	masked.Args.(*wire.Create4Args).Createattrs = attrs().put(wire.Fattr4ModeUmask, words(0o777, 0o22)).f
	do(putRoot, masked)
	for at := uint64(0); at < 1<<20; at += 64 << 10 {
		do(putFH(o.fh), deallocate(o.Stateid, at, 4<<10))
	}
	for _, count := range []uint32{1, 3, 4096, 100_000, 1 << 20} {
		do(putFH(o.fh), readPlus(o.Stateid, 0, count))
	}
	do(putFH(o.fh), allocate(o.Stateid, 0, 4096), seek(o.Stateid, 0, wire.NFS4ContentHole))
	r := do(putRoot, open(creating(openArgs("to", "owner", both, 0), wire.Unchecked4, attrs().mode(0o666).f, 0)), getFH)
	var to wire.Open4Res
	r.Ops[2].Into(l.t, &to)
	var at wire.GetFH4Res
	r.Ops[3].Into(l.t, &at)
	do(putFH(o.fh), saveFH, putFH(at.ResOK.Object), copyOp(o.Stateid, to.ResOK.Stateid, 0, 0, 4096))
	// Without a file system that shares storage, CLONE fails, but its result has no body in any case.
	do(putFH(o.fh), saveFH, putFH(at.ResOK.Object), clone(o.Stateid, to.ResOK.Stateid, 0, 0, 4096))
	l.seen[wire.OpClone] = true
	for i := range 10 {
		do(putFH(o.fh), setXattr(strings.Repeat("n", 1+i*249/9), "", either))
	}
	do(putFH(o.fh), setXattr("long", strings.Repeat("v", 1000), either), getXattr("long"))
	for _, count := range []uint32{16, 24, 100, 300, 4096, 1 << 20} {
		do(putFH(o.fh), listXattrs(0, count))
	}
	do(putFH(o.fh), removeXattr("long"))
}

// version40 sends the operations of minor version 0.
func (l *longest) version40(placed bool) {
	p := l.peer(0, placed)
	do := func(ops ...nfs4test.Op) *nfs4test.Result {
		l.t.Helper()
		r := p.Compound(ops...)
		l.note(r)
		return r
	}
	set := func(p *nfs4test.Peer) *nfs4test.Result {
		args := &wire.SetClientID4Args{Client: wire.NFSClientID4{ID: []byte(strings.Repeat("c", 1024))}}
		args.Callback.CBLocation = wire.NetAddr4{RNetid: []byte(strings.Repeat("n", 100)), RAddr: []byte(strings.Repeat("a", 100))}
		r := p.Compound(op(wire.OpSetClientID, args))
		l.note(r)
		return r
	}
	var res wire.SetClientID4Res
	set(p).Ops[0].Into(l.t, &res)
	id := res.ResOK.Clientid
	do(op(wire.OpSetClientIDConfirm, &wire.SetClientIDConfirm4Args{Clientid: id, SetclientidConfirm: res.ResOK.SetclientidConfirm}))
	args := creating(openArgs(strings.Repeat("f", 255), strings.Repeat("O", 1000), both, 0), wire.Unchecked4, attrs().mode(0o666).f, 0)
	args.Owner.Clientid, args.Seqid = id, 1
	r := do(putRoot, open(args), getFH)
	var opened wire.Open4Res
	r.Ops[1].Into(l.t, &opened)
	var at wire.GetFH4Res
	r.Ops[2].Into(l.t, &at)
	fh := append([]byte(nil), at.ResOK.Object...)
	var confirmed wire.OpenConfirm4Res
	do(putFH(fh), op(wire.OpOpenConfirm, &wire.OpenConfirm4Args{OpenStateid: opened.ResOK.Stateid, Seqid: 2})).Ops[1].Into(l.t, &confirmed)
	stateid := confirmed.ResOK.Stateid
	another := l.Peer(0) // at another address it would be another client
	another.UID = 1000
	if r := set(another); r.Status != wire.NFS4ErrClIDInUse {
		l.t.Errorf("SETCLIENTID of a name in use: %v", r.Status)
	}
	l.objects(do, fh, stateid)
	first := func(owner string, open, seqid uint32) *nfs4test.Result {
		o := lockNew(stateid, owner, wire.WriteLt, 0, toEnd)
		to := &o.Args.(*wire.Lock4Args).Locker.OpenOwner
		to.OpenSeqid, to.LockSeqid, to.LockOwner.Clientid = open, seqid, id
		return do(putFH(fh), o)
	}
	var locked wire.Lock4Res
	first(strings.Repeat("L", 1024), 3, 1).Ops[1].Into(l.t, &locked)
	if r := first("a", 4, 1); r.Status != wire.NFS4ErrDenied {
		l.t.Errorf("a second LOCK: %v", r.Status)
	}
	test := lockTest("a", wire.WriteLt, 0, toEnd)
	test.Args.(*wire.Lockt4Args).Owner.Clientid = id
	do(putFH(fh), test)
	release := unlock(locked.ResOK.LockStateid, 0, toEnd)
	release.Args.(*wire.Locku4Args).Seqid = 2
	do(putFH(fh), release)
	do(op(wire.OpReleaseLockOwner, &wire.ReleaseLockOwner4Args{LockOwner: wire.StateOwner4{Clientid: id, Owner: []byte("a")}}))
	do(op(wire.OpRenew, &wire.Renew4Args{Clientid: id}))
	args = openArgs(strings.Repeat("f", 255), strings.Repeat("O", 1000), read, 0)
	args.Owner.Clientid, args.Seqid = id, 5
	do(putRoot, open(args)).Ops[1].Into(l.t, &opened)
	down := downgrade(opened.ResOK.Stateid, read, 0)
	down.Args.(*wire.OpenDowngrade4Args).Seqid = 6
	var less wire.OpenDowngrade4Res
	do(putFH(fh), down).Ops[1].Into(l.t, &less)
	end := closeOp(less.ResOK.Stateid)
	end.Args.(*wire.Close4Args).Seqid = 7
	do(putFH(fh), end)
}
