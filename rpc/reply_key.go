package rpc

import "hash/maphash"

// sampled is the number of bytes at each end of long arguments that the key covers. A digest of
// all the data of a WRITE would cost as much as the WRITE.
const sampled = 2 << 10

// A replyKey is equal for calls that look the same.
type replyKey struct {
	addr [16]byte
	xid  uint32
	sum  uint64 // hash of the identity
}

// identity distinguishes calls with the same XID. It includes the caller and the protection, so
// that a result goes only to the caller that it was made for, with the same protection.
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
		// The principal's numbers may have been looked up since the first call.
		id.groups, id.uid, id.gid = 0, 0, 0
	}
	return replyKey{addr: c.Conn.Peer.Addr().As16(), xid: h.XID, sum: maphash.Comparable(rc.seed, id)}
}

// digest returns a hash of b: of its length, and of sampled bytes at either end if b is long.
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
