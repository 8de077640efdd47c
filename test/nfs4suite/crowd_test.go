package nfs4suite

import (
	"fmt"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// The server accepts many clients that one host creates and abandons one after the other, as a
// test suite does. Each leaves open files and locked ranges, some in files of its own and some in
// a file that all share.
func TestCrowd(t *testing.T) {
	crowd(t, newSite(t, nil, state.Config{}), "first", 1000)
}

// crowd creates n clients of minor version 1 and n of minor version 0. Their names begin with
// prefix.
func crowd(t *testing.T, site *nfs4test.Site, prefix string, n int) {
	t.Helper()
	first := newSession(t, site, 1, prefix)
	common := first.makeFile("common")
	old := site.Peer(0)
	old.T = t
	for i := range n {
		s := newSession(t, site, 1, fmt.Sprint(prefix, " late ", i))
		own := s.open(creating(openArgs(fmt.Sprint(prefix, " late ", i), "owner", both, 0), wire.Unchecked4, attrs().f, 0))
		s.lock(&own, "locker", wire.WriteLt, 0, 10)
		shared := s.open(openArgs("common", "owner", both, 0))
		s.lock(&shared, "locker", wire.WriteLt, uint64(i), 1)
		s.open(openArgs("common", "second owner", read, 0))
		first.want("what the first has", ok, putFH(common), readOp(bypass, 0, 1))
		crowdOf40(t, old, fmt.Sprint(prefix, " old ", i), uint64(1<<20+i), common)
	}
}

// crowdOf40 creates a client of minor version 0 without a callback address. It locks a byte in a
// file of its own, and one in the file that all clients have open.
func crowdOf40(t *testing.T, p *nfs4test.Peer, name string, offset uint64, common []byte) {
	t.Helper()
	must := func(what string, ops ...nfs4test.Op) *nfs4test.Result {
		t.Helper()
		r := p.Compound(ops...)
		if r.Status != ok {
			t.Fatalf("%s: %s: %v", name, what, r.Status)
		}
		return r
	}
	last := func(r *nfs4test.Result, n int, res decoder) { r.Ops[len(r.Ops)-n].Into(t, res) }
	var set wire.SetClientID4Res
	last(must("SETCLIENTID", op(wire.OpSetClientID, &wire.SetClientID4Args{Client: wire.NFSClientID4{ID: []byte(name)}})), 1, &set)
	id := set.ResOK.Clientid
	must("SETCLIENTID_CONFIRM", op(wire.OpSetClientIDConfirm, &wire.SetClientIDConfirm4Args{Clientid: id, SetclientidConfirm: set.ResOK.SetclientidConfirm}))
	args := creating(openArgs(name, "owner", both, 0), wire.Unchecked4, attrs().f, 0)
	args.Owner.Clientid, args.Seqid = id, 1
	var res wire.Open4Res
	r := must("OPEN", putRoot, open(args), getFH)
	last(r, 2, &res)
	var at wire.GetFH4Res
	last(r, 1, &at)
	fh := append([]byte(nil), at.ResOK.Object...)
	var confirmed wire.OpenConfirm4Res
	last(must("OPEN_CONFIRM", putFH(fh), op(wire.OpOpenConfirm, &wire.OpenConfirm4Args{OpenStateid: res.ResOK.Stateid, Seqid: 2})), 1, &confirmed)
	args = openArgs("common", "owner", both, 0)
	args.Owner.Clientid, args.Seqid = id, 3
	var shared wire.Open4Res
	last(must("OPEN of what all have open", putRoot, open(args)), 1, &shared)
	lock := func(what string, fh []byte, id wire.StateID4, client uint64, seqid, lockSeqid uint32, offset uint64) {
		t.Helper()
		l := &wire.Lock4Args{Locktype: wire.WriteLt, Offset: offset, Length: 1, Locker: wire.Locker4{NewLockOwner: true}}
		l.Locker.OpenOwner = wire.OpenToLockOwner4{OpenSeqid: seqid, OpenStateid: id, LockSeqid: lockSeqid, LockOwner: wire.StateOwner4{Clientid: client, Owner: []byte("locker")}}
		must(what, putFH(fh), op(wire.OpLock, l))
	}
	lock("LOCK", fh, confirmed.ResOK.Stateid, id, 4, 1, 0)
	lock("LOCK of what all have locked", common, shared.ResOK.Stateid, id, 5, 2, offset)
}
