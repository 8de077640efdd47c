package hostile

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	mountwire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/mount3wire"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	nlmwire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nlm4wire"
)

// Crammed are clients that put many entries of each kind into the daemon's tables: mounts, clients of each minor
// version, sessions, opens, locks of each version, hosts, and replies of calls that must not be executed twice.
// They stay connected.
type Crammed struct {
	Peers int
	Everything
	// Mounts has the paths that each peer mounts.
	Mounts []string
	// Clients, Sessions, Opens, Locks, Hosts and Replies are numbers of entries for each peer.
	Clients, Sessions, Opens, Locks, Hosts, Replies int
}

func (b Crammed) String() string {
	return fmt.Sprintf("%d clients with %d mounts, %d clients of 4.0 and of 4.1, %d sessions, %d opens, %d locks and hosts, %d replies each",
		b.Peers, len(b.Mounts), b.Clients, b.Sessions, b.Opens, b.Locks+b.Hosts, b.Replies)
}

// Start implements Behaviour.
func (b Crammed) Start(ctx context.Context, target Target) *Attack {
	return attack(ctx, b.Peers, func(ctx context.Context, i int, stands func()) error {
		conn, err := dial(ctx, target.Source(i), target.TCP, 0)
		if err != nil {
			return err
		}
		defer tie(ctx, conn)()
		var refused status4
		if err := b.cram(conn, i, netip.AddrPortFrom(target.Source(i), 9)); err != nil && !errors.As(err, &refused) {
			return err
		}
		stands()
		return hold(conn)
	})
}

func (b Crammed) cram(conn net.Conn, peer int, called netip.AddrPort) error {
	c := &client4{link: recordLink{conn, bufio.NewReader(conn)}}
	var calls []func(xid uint32) []byte
	for _, path := range b.Mounts {
		path := mountwire.DirPath(path)
		calls = append(calls, procedure(mountwire.ProcMnt, mountwire.Program, mountwire.Version, uint32(mountwire.ProcMnt), &path).Message)
	}
	for n := range b.Hosts {
		lock := nlmwire.Lock4{
			CallerName: fmt.Appendf(nil, "host %d %d", peer, n), FileHandle: b.File, OH: []byte("owner"), Offset: uint64(2 * (peer*b.Hosts + n)), Length: 1,
		}
		calls = append(calls, procedure(nlmwire.ProcLock, nlmwire.Program, nlmwire.Version, uint32(nlmwire.ProcLock), &nlmwire.LockArgs4{Lock: lock}).Message)
	}
	for n := range b.Replies {
		calls = append(calls, func(xid uint32) []byte {
			return opaque(opaque(call(xid, nfsProgram, 12), b.Dir), fmt.Appendf(nil, "absent %d", n)) // REMOVE
		})
	}
	for _, message := range calls {
		c.xid++
		if err := c.put(message(c.xid)); err != nil {
			return err
		}
		if _, err := c.await(); err != nil {
			return err
		}
	}
	for n := range b.Clients {
		c.minor = 0
		if err := c.introduce(longName(peer, n), called); err != nil {
			return fmt.Errorf("SETCLIENTID: %w", err)
		}
		c.minor = 1
		if _, err := c.exchange(longName(peer, n)); err != nil {
			return fmt.Errorf("EXCHANGE_ID: %w", err)
		}
	}
	for n := range b.Sessions {
		if err := c.start(fmt.Appendf(nil, "session %d %d", peer, n), 4); err != nil {
			return fmt.Errorf("a session: %w", err)
		}
	}
	return b.hold(c, peer)
}

// hold opens the file for many owners, and locks ranges of it.
func (b Crammed) hold(c *client4, peer int) error {
	open := func(n int, owner string) []op4 {
		return []op4{c.sequence(0, uint32(n+2), false), putFH(b.File), {wire.OpOpen, &wire.Open4Args{
			ShareAccess: wire.Open4ShareAccessRead, Owner: wire.StateOwner4{Clientid: c.id, Owner: []byte(owner)}, Claim: wire.OpenClaim4{Claim: wire.ClaimFH},
		}}}
	}
	for n := range b.Opens {
		if _, err := c.do(open(n, fmt.Sprint("open ", n))...); err != nil {
			return fmt.Errorf("OPEN: %w", err)
		}
	}
	const current = 1 // the sequence number of the current stateid (RFC 8881 §16.2.3.1.2)
	for n := range b.Locks {
		owner := fmt.Sprint("lock ", n)
		lock := &wire.Lock4Args{
			Locktype: wire.ReadLt, Offset: 1<<32 + uint64(2*(peer*b.Locks+n)), Length: 1,
			Locker: wire.Locker4{NewLockOwner: true, OpenOwner: wire.OpenToLockOwner4{
				OpenStateid: wire.StateID4{Seqid: current}, LockOwner: wire.StateOwner4{Clientid: c.id, Owner: []byte(owner)},
			}},
		}
		if _, err := c.do(append(open(b.Opens+n, owner), op4{wire.OpLock, lock})...); err != nil {
			return fmt.Errorf("LOCK: %w", err)
		}
	}
	return nil
}
