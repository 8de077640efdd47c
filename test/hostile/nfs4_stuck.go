package hostile

import (
	"context"
	"fmt"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// StuckCompounds are clients of NFSv4.1. Each sends a compound that stops in its middle at a
// stalled file system, and retransmits it on another connection. Meanwhile the client makes calls
// in another slot of the session. The daemon must answer these calls and the retransmissions.
//
// Each peer costs the daemon one call under way, and perhaps a thread.
type StuckCompounds struct {
	Transport string
	// At is the export on which the compounds get stuck. Other is a file on another file system,
	// which does not stall. Stalled is closed when At stalls.
	At      *StallingPlace
	Other   []byte
	Stalled <-chan struct{}
	// First is the index, among the files of the export At, of the file that the first client uses.
	First int
	// Destroys is true if the client destroys the session over the other connection instead of
	// retransmitting.
	Destroys bool
}

// stuckOps are the operations that get stuck. The clients that send them have a file open and
// locked.
var stuckOps = []struct {
	name string
	ops  func(c *lockClient, at *StallingPlace) []op4
}{
	{"LOOKUP", func(c *lockClient, at *StallingPlace) []op4 {
		return []op4{putFH(at.Root), {wire.OpLookup, &wire.Lookup4Args{Objname: []byte("not seen yet")}}}
	}},
	{"GETATTR", func(c *lockClient, at *StallingPlace) []op4 { return []op4{putFH(c.file), getattr4()} }},
	{"READDIR", func(c *lockClient, at *StallingPlace) []op4 {
		return []op4{putFH(at.Many), {wire.OpReaddir, &wire.Readdir4Args{Dircount: 1024, Maxcount: 1024, AttrRequest: wire.Bits(1, 4, 33)}}}
	}},
	{"READ", func(c *lockClient, at *StallingPlace) []op4 {
		return []op4{putFH(c.file), {wire.OpRead, &wire.Read4Args{Stateid: c.open, Offset: 1 << 20, Count: 1024}}}
	}},
	{"WRITE", func(c *lockClient, at *StallingPlace) []op4 {
		return []op4{putFH(c.file), {wire.OpWrite, &wire.Write4Args{Stateid: c.open, Stable: wire.FileSync4, Data: xdr.Eligible{Data: make([]byte, 100)}}}}
	}},
	{"COMMIT", func(c *lockClient, at *StallingPlace) []op4 {
		return []op4{putFH(c.file), {wire.OpCommit, &wire.Commit4Args{}}}
	}},
	{"SETATTR", func(c *lockClient, at *StallingPlace) []op4 {
		size := wire.FAttr4{Attrmask: wire.Bits(wire.Fattr4Size), AttrVals: make([]byte, 8)}
		return []op4{putFH(c.file), {wire.OpSetattr, &wire.Setattr4Args{Stateid: c.open, ObjAttributes: size}}}
	}},
	{"OPEN", func(c *lockClient, at *StallingPlace) []op4 {
		args := &wire.Open4Args{
			ShareAccess: wire.Open4ShareAccessBoth, Owner: wire.StateOwner4{Clientid: c.id, Owner: []byte("another")},
			Claim: wire.OpenClaim4{Claim: wire.ClaimNull, File: []byte("a new file")},
		}
		args.Openhow.Opentype = wire.Open4Create
		return []op4{putFH(at.Root), {wire.OpOpen, args}}
	}},
	{"CLOSE over a lock", func(c *lockClient, at *StallingPlace) []op4 {
		return []op4{putFH(c.file), {wire.OpClose, &wire.Close4Args{OpenStateid: c.open}}}
	}},
	{"LOCK", func(c *lockClient, at *StallingPlace) []op4 {
		return []op4{putFH(c.file), {wire.OpLock, &wire.Lock4Args{Locktype: wire.WriteLt, Offset: 1 << 40, Length: 1,
			Locker: wire.Locker4{NewLockOwner: true, OpenOwner: wire.OpenToLockOwner4{OpenStateid: c.open,
				LockOwner: wire.StateOwner4{Clientid: c.id, Owner: []byte("second")}}}}}}
	}},
	{"REMOVE", func(c *lockClient, at *StallingPlace) []op4 {
		return []op4{putFH(at.Root), {wire.OpRemove, &wire.Remove4Args{Target: []byte(largeName)}}}
	}},
	{"RENAME", func(c *lockClient, at *StallingPlace) []op4 {
		return []op4{putFH(at.Root), {number: wire.OpSaveFH}, {wire.OpRename, &wire.Rename4Args{Oldname: []byte(honestName(0)), Newname: []byte("moved")}}}
	}},
}

func getattr4() op4 {
	return op4{wire.OpGetattr, &wire.Getattr4Args{AttrRequest: wire.Bits(1, 3, 4, 33, 35, 52, 53)}}
}

func (b StuckCompounds) String() string {
	what := "come again, and their sessions are used"
	if b.Destroys {
		what = "lose their sessions"
	}
	return fmt.Sprintf("%d clients on %s whose compounds are stuck in a file system, that %s", len(stuckOps), b.Transport, what)
}

// Start implements Behaviour.
func (b StuckCompounds) Start(ctx context.Context, target Target) *Attack {
	return attack(ctx, len(stuckOps), func(ctx context.Context, i int, stands func()) error {
		err := b.peer(ctx, target, i, stands)
		if err != nil {
			return fmt.Errorf("%s: %w", stuckOps[i].name, err)
		}
		return nil
	})
}

func (b StuckCompounds) peer(ctx context.Context, target Target, i int, stands func()) error {
	l, end, err := dialLink(ctx, target, b.Transport, i)
	if err != nil {
		return err
	}
	defer end()
	client := &client4{minor: 1, link: l}
	c, err := client.lockClient(fmt.Appendf(nil, "stuck %d", lives.Add(1)), b.At.files[b.First+i])
	if err != nil {
		return err
	}
	if _, err := c.lock([]byte("first"), wire.WriteLt, 0, 10); err != nil {
		return err
	}
	l, end, err = dialLink(ctx, target, b.Transport, i)
	if err != nil {
		return err
	}
	defer end()
	other := *client
	other.link = l
	stands()
	select {
	case <-b.Stalled:
	case <-ctx.Done():
		return nil
	}
	ops := append([]op4{c.sequence(0, c.next, true), putFH(b.Other), getattr4()}, stuckOps[i].ops(c, b.At)...)
	ops = append(ops, getattr4())
	c.xid++
	if err := c.put(compound(c.xid, c.minor, ops, 0, nil)); err != nil {
		return err
	}
	for n := uint32(1); ctx.Err() == nil; n++ {
		begin := time.Now()
		if b.Destroys {
			if _, err := other.do(op4{wire.OpBindConnToSession, &wire.BindConnToSession4Args{Sessid: c.session, Dir: wire.Cdfc4Fore}}); err != nil {
				return err
			}
			if _, err := other.do(op4{wire.OpDestroySession, &wire.DestroySession4Args{Sessionid: c.session}}); err != nil {
				return err
			}
			if _, err := other.do(c.sequence(1, n, false)); err != status4(wire.NFS4ErrBadSession) {
				return fmt.Errorf("a session that was destroyed: %w", err)
			}
			wait(ctx, time.Hour)
			return nil
		}
		// This repeats a request that is still being executed, so the daemon may answer
		// NFS4ERR_DELAY.
		if _, err := other.do(ops...); err != nil && err != status4(wire.NFS4ErrDelay) {
			return fmt.Errorf("the retransmission: %w", err)
		}
		if _, err := c.do(c.sequence(1, n, false), putFH(b.Other), getattr4()); err != nil {
			return fmt.Errorf("another slot: %w", err)
		}
		if d := time.Since(begin); d > Patience {
			return fmt.Errorf("after %v", d)
		}
		wait(ctx, 100*time.Millisecond)
	}
	return nil
}
