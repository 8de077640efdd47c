package overtime

import (
	"fmt"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// An owner is a client of NFSv4.0 with one open-owner and one lock-owner. Its calls follow one
// another, because each has the owner's next seqid (RFC 7530 §9.1.7).
type owner struct {
	*objects
	number   uint64 // number of the thread that uses it
	client   uint64
	opens    uint32 // the last seqid of the open-owner
	file     wire.StateID4
	locks    uint32 // the last seqid of the lock-owner
	lock     wire.StateID4
	known    bool // true if the server knows the lock-owner
	holds    bool
	attempts int
	locked   wire.Lock4Res
	unlocked wire.Locku4Res
}

// prepare creates the client ID and opens the file that the thread will lock.
func (o *owner) prepare(number uint64, call func(build func(xid uint32) []byte) []byte) error {
	o.number = number
	var id wire.SetClientID4Res
	if err := o.run(call, operation{wire.OpSetClientID, &wire.SetClientID4Args{
		Client: wire.NFSClientID4{Verifier: wire.Verifier4{1}, ID: o.name(0)},
	}, &id}); err != nil {
		return err
	}
	o.client = id.ResOK.Clientid
	if err := o.run(call, operation{number: wire.OpSetClientIDConfirm, args: &wire.SetClientIDConfirm4Args{
		Clientid: o.client, SetclientidConfirm: id.ResOK.SetclientidConfirm,
	}}); err != nil {
		return err
	}
	var opened wire.Open4Res
	if err := o.run(call, putFH(o.root), o.open("target", wire.Openflag4{}, &opened)); err != nil {
		return err
	}
	o.opens++
	o.file = opened.ResOK.Stateid
	if opened.ResOK.Rflags&wire.Open4ResultConfirm != 0 {
		var confirmed wire.OpenConfirm4Res
		if err := o.run(call, putFH(o.target), operation{wire.OpOpenConfirm, &wire.OpenConfirm4Args{OpenStateid: o.file, Seqid: o.opens + 1}, &confirmed}); err != nil {
			return err
		}
		o.opens++
		o.file = confirmed.ResOK.Stateid
	}
	return nil
}

// run makes a call that must succeed.
func (o *owner) run(call func(build func(xid uint32) []byte) []byte, list ...operation) error {
	m := call(func(xid uint32) []byte { return compound(o.machine, xid, list) })
	d := xdr.NewDecoder(m)
	if _, _, err := rpc.ReadReply(d); err != nil {
		return err
	}
	s := results(d, list)
	if err := d.Finish(); err != nil || s != wire.NFS4OK {
		return fmt.Errorf("%v: %v, %w", list[len(list)-1].number, s, err)
	}
	return nil
}

func (o *owner) name(n int) []byte { return fmt.Appendf(nil, "owner %d.%d", o.number, n) }

// open returns an OPEN of a name in the directory that is the current filehandle, with the next
// seqid.
func (o *owner) open(name string, how wire.Openflag4, res *wire.Open4Res) operation {
	return operation{wire.OpOpen, &wire.Open4Args{
		Seqid: o.opens + 1, ShareAccess: wire.Open4ShareAccessBoth, Owner: wire.StateOwner4{Clientid: o.client, Owner: o.name(0)},
		Openhow: how, Claim: wire.OpenClaim4{File: wire.UTF8String(name)},
	}, res}
}

// create returns an OPEN that creates a name, which must not exist.
func (o *owner) create(name wire.UTF8String) operation {
	how := wire.Openflag4{Opentype: wire.Open4Create, How: wire.Createhow4{Mode: wire.Guarded4}}
	return o.open(string(name), how, new(wire.Open4Res))
}

// acquire returns a LOCK with the next seqid.
func (o *owner) acquire(res *wire.Lock4Res) operation {
	who := wire.Locker4{LockOwner: wire.ExistLockOwner4{Stateid: o.lock, Seqid: o.locks + 1}}
	if !o.known {
		// The server forgets a lock-owner whose first lock it denied, so the owner uses another
		// name for each attempt.
		who = wire.Locker4{NewLockOwner: true, OpenOwner: wire.OpenToLockOwner4{
			OpenSeqid: o.opens + 1, OpenStateid: o.file, LockOwner: wire.StateOwner4{Clientid: o.client, Owner: o.name(1 + o.attempts)},
		}}
	}
	return operation{wire.OpLock, &wire.Lock4Args{Locktype: wire.WriteLt, Length: 1, Locker: who}, res}
}

// release returns a LOCKU with the next seqid.
func (o *owner) release(res *wire.Locku4Res) operation {
	return operation{wire.OpLocku, &wire.Locku4Args{Locktype: wire.WriteLt, Seqid: o.locks + 1, LockStateid: o.lock, Length: 1}, res}
}

// acquired records the answer to acquire.
func (o *owner) acquired(s wire.NFSStat4, res *wire.Lock4Res) {
	if o.known {
		o.locks++
	} else {
		o.opens++
		o.attempts++
	}
	if s == wire.NFS4OK {
		o.known, o.holds, o.lock = true, true, res.ResOK.LockStateid
	}
}

// released records the answer to release.
func (o *owner) released(s wire.NFSStat4, res *wire.Locku4Res) {
	o.locks++
	if s == wire.NFS4OK {
		o.holds, o.lock = false, res.Stateid
	}
}
