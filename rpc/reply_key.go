package rpc

import "hash/maphash"

// sampled is how many bytes of the start, and of the end, of long arguments tell two
// calls apart that have the same XID: a digest of all the data of a WRITE would cost as
// much as the WRITE.
const sampled = 2 << 10

// A replyKey is what calls that look the same have in common.
type replyKey struct {
	addr [16]byte
	xid  uint32
	sum  uint64 // of identity
}

// identity is what tells calls with one XID apart. A result goes to the caller who earned
// it, protected as it was.
type identity struct {
	arguments, beside, groups, principal, machine uint64
	prog, version, proc                           uint32
	flavor                                        Flavor
	gss                                           GSSService
	uid, gid                                      uint32
}

func (rc *replyCache) key(c *Call) replyKey {
	h := &c.Header
	id := identity{
		arguments: rc.digest(c.Args.Rest()),
		groups:    rc.groups(c.Cred.Groups),
		principal: maphash.String(rc.seed, c.Cred.Principal),
		machine:   maphash.Bytes(rc.seed, c.Cred.Machine),
		prog:      h.Program, version: h.Version, proc: h.Procedure,
		flavor: c.Cred.Flavor, gss: c.Cred.GSS, uid: c.Cred.UID, gid: c.Cred.GID,
	}
	for i := range c.Excised {
		id.beside = maphash.Comparable(rc.seed, [2]uint64{id.beside, rc.digest(c.Excised[i].Data)})
	}
	if c.Cred.Principal != "" {
		// Its numbers may have become known since.
		id.groups, id.uid, id.gid = 0, 0, 0
	}
	return replyKey{addr: c.Conn.Peer.Addr().As16(), xid: h.XID, sum: maphash.Comparable(rc.seed, id)}
}

// digest tells bytes apart by their number, and by those at either end.
func (rc *replyCache) digest(b []byte) uint64 {
	if len(b) <= 2*sampled {
		return maphash.Bytes(rc.seed, b)
	}
	return maphash.Comparable(rc.seed, [3]uint64{
		uint64(len(b)), maphash.Bytes(rc.seed, b[:sampled]), maphash.Bytes(rc.seed, b[len(b)-sampled:]),
	})
}

func (rc *replyCache) groups(list []uint32) (sum uint64) {
	for _, g := range list {
		sum = maphash.Comparable(rc.seed, [2]uint64{sum, uint64(g) + 1})
	}
	return sum
}
