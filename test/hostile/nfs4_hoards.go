package hostile

import (
	"context"
	"errors"
	"fmt"

	"github.com/nfsrdmad/nfsrdmad/server/servertest"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A Hoard is one kind of state that an NFSv4 client accumulates.
type Hoard struct {
	What string
	// Each makes the daemon store the item number i of a peer. If the daemon refuses it, the error
	// is a status4, and the peer adds no more items.
	Each func(c *client4, peer, i int) error
	// Starts is true if the client creates a session before the first item.
	Starts bool
}

// Hoards are peers on TCP that make the daemon store state for them, until it refuses more or a
// peer has Most items. Then they keep that state.
//
// Each peer costs the daemon the memory for state that one client may use.
type Hoards struct {
	Peers, Most int
	Hoard
}

func (b Hoards) String() string {
	return fmt.Sprintf("%d NFSv4 clients that heap up %s, up to %d each", b.Peers, b.What, b.Most)
}

// Start implements Behaviour.
func (b Hoards) Start(ctx context.Context, target Target) *Attack {
	return attack(ctx, b.Peers, func(ctx context.Context, i int, stands func()) error {
		conn, err := dial(ctx, target.Source(i), target.TCP, 0)
		if err != nil {
			return err
		}
		defer tie(ctx, conn)()
		c := &client4{minor: 1, link: tcpLink(conn)}
		if b.Starts {
			if err := c.start(fmt.Appendf(nil, "hoard %d", i), 1024); err != nil {
				return err
			}
		}
		for n := range b.Most {
			err := b.Each(c, i, n)
			var status status4
			if errors.As(err, &status) {
				break // the daemon refuses more
			} else if err != nil {
				return err
			}
		}
		stands()
		return hold(conn)
	})
}

// longName returns a name of the greatest permitted length that differs for each peer and i.
func longName(peer, i int) []byte {
	name := make([]byte, wire.NFS4OpaqueLimit)
	copy(name, fmt.Sprintf("%d %d", peer, i))
	return name
}

// Clients is a Hoard of client IDs without a session. Sessions is a Hoard of client IDs with one
// session each, with as many slots as the daemon grants.
var (
	Clients = Hoard{What: "clients", Each: func(c *client4, peer, i int) error {
		_, err := c.exchange(longName(peer, i))
		return err
	}}
	Sessions = Hoard{What: "clients with a session of 1024 slots", Each: func(c *client4, peer, i int) error {
		return c.start(longName(peer, i), 1024)
	}}
)

// SmallSessions is a Hoard of sessions of one slot that cache no replies. Each client ID has 64
// of them.
var SmallSessions = Hoard{What: "sessions of one slot", Each: func(c *client4, peer, i int) error {
	if i%64 == 0 {
		var err error
		if c.made, err = c.exchange(longName(peer, i)); err != nil {
			return err
		}
	}
	err := c.createAs(c.made, wire.ChannelAttrs4{Maxrequestsize: 4 * kib, Maxresponsesize: 4 * kib, Maxoperations: 16, Maxrequests: 1})
	c.made++
	return err
}}

// Opens returns a Hoard of opens of one file, each by a new open-owner.
func Opens(file []byte) Hoard {
	return Hoard{What: "opens", Starts: true, Each: func(c *client4, peer, i int) error {
		_, err := c.do(c.sequence(0, uint32(i+2), false), putFH(file), op4{wire.OpOpen, &wire.Open4Args{
			ShareAccess: wire.Open4ShareAccessRead, Owner: wire.StateOwner4{Clientid: c.id, Owner: longName(peer, i)},
			Openhow: wire.Openflag4{Opentype: wire.Open4Nocreate}, Claim: wire.OpenClaim4{Claim: wire.ClaimFH},
		}})
		return err
	}}
}

// Files returns a Hoard of opens of different files by one open-owner.
func Files(files []servertest.Handle) Hoard {
	return Hoard{What: "open files", Starts: true, Each: func(c *client4, peer, i int) error {
		_, err := c.do(c.sequence(0, uint32(i+2), false), putFH(files[i]), op4{wire.OpOpen, &wire.Open4Args{
			ShareAccess: wire.Open4ShareAccessRead, Owner: wire.StateOwner4{Clientid: c.id, Owner: []byte("owner")},
			Openhow: wire.Openflag4{Opentype: wire.Open4Nocreate}, Claim: wire.OpenClaim4{Claim: wire.ClaimFH},
		}})
		return err
	}}
}

// Ranges returns a Hoard of locks of every second byte of a file.
func Ranges(file []byte) Hoard {
	return Hoard{What: "byte ranges", Starts: true, Each: func(c *client4, peer, i int) error {
		owner := wire.StateOwner4{Clientid: c.id, Owner: fmt.Appendf(nil, "owner %d", peer)}
		ops := []op4{c.sequence(0, uint32(i+2), false), putFH(file)}
		// Each compound opens the file again, by the same owner, so that the peer need not
		// remember a stateid.
		ops = append(ops, op4{wire.OpOpen, &wire.Open4Args{
			ShareAccess: wire.Open4ShareAccessRead, Owner: owner,
			Openhow: wire.Openflag4{Opentype: wire.Open4Nocreate}, Claim: wire.OpenClaim4{Claim: wire.ClaimFH},
		}})
		for k := range 8 {
			ops = append(ops, op4{wire.OpLock, &wire.Lock4Args{
				Locktype: wire.ReadLt, Offset: uint64(i*8+k) * 2, Length: 1,
				Locker: wire.Locker4{NewLockOwner: k == 0, OpenOwner: wire.OpenToLockOwner4{OpenStateid: wire.StateID4{Seqid: 1}, LockOwner: owner},
					LockOwner: wire.ExistLockOwner4{Stateid: wire.StateID4{Seqid: 1}}},
			}})
		}
		_, err := c.do(ops...)
		return err
	}}
}

// KeptReplies returns a Hoard of cached replies: each slot of a session, except slot 0, caches one
// reply of up to 7 KiB.
func KeptReplies(dir []byte) Hoard {
	return Hoard{What: "replies in slots", Starts: true, Each: func(c *client4, _, i int) error {
		if uint32(i) >= c.slots-1 {
			return status4(wire.NFS4ErrBadSlot)
		}
		_, err := c.do(c.sequence(uint32(i+1), 1, true), putFH(dir), op4{wire.OpReaddir, &wire.Readdir4Args{
			Dircount: 7 * kib, Maxcount: 7 * kib, AttrRequest: wire.Bits(1, 3, 4, 8, 20, 33),
		}})
		return err
	}}
}
