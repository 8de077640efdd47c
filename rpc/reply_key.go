package rpc

import "hash/maphash"

// sampled is the number of bytes at each end of long data that digest reads. A hash over all data
// of a WRITE would cost as much as the WRITE itself.
const sampled = 2 << 10

// A replyKey identifies a call. A repeated call has the same key as the first; different calls may
// rarely have the same key as well.
type replyKey struct {
	addr [16]byte
	xid  uint32
	// sum is a hash of the procedure, the arguments, the caller and the protection. It contains the
	// caller and the protection so that a stored result goes only to the caller that it was made
	// for, with the same protection.
	sum uint64
}

func (rc *replyCache) key(c *Call) replyKey {
	h, cred := &c.Header, &c.Cred
	groups, uid, gid := cred.Groups, cred.UID, cred.GID
	if cred.Principal != "" {
		// The hash leaves out the user and group numbers, because the lookup of the principal's
		// numbers may give another result for the repeated call.
		groups, uid, gid = nil, 0, 0
	}
	var lists [2]uint64
	for _, g := range groups {
		lists[0] = maphash.Comparable(rc.seed, [...]uint64{lists[0], uint64(g) + 1})
	}
	for i := range c.Excised {
		lists[1] = maphash.Comparable(rc.seed, [...]uint64{lists[1], rc.digest(c.Excised[i].Data)})
	}
	return replyKey{addr: c.Conn.Peer.Addr().As16(), xid: h.XID, sum: maphash.Comparable(rc.seed, [...]uint64{
		uint64(h.Program), uint64(h.Version), uint64(h.Procedure), rc.digest(c.Args.Rest()), lists[0], lists[1],
		uint64(uid), uint64(gid), uint64(cred.Flavor), uint64(cred.GSS),
		maphash.String(rc.seed, cred.Principal), maphash.Bytes(rc.seed, cred.Machine),
	})}
}

// digest returns a hash of b. If b is longer than 2*sampled bytes, the hash covers only its length,
// its first sampled bytes and its last sampled bytes.
func (rc *replyCache) digest(b []byte) uint64 {
	if len(b) <= 2*sampled {
		return maphash.Bytes(rc.seed, b)
	}
	return maphash.Comparable(rc.seed, [...]uint64{
		uint64(len(b)), maphash.Bytes(rc.seed, b[:sampled]), maphash.Bytes(rc.seed, b[len(b)-sampled:]),
	})
}
