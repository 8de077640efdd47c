package nfs41

import (
	"net/netip"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// An About is what a client has told of itself, and whether the server can call it.
type About struct {
	// Minor is the minor version of the EXCHANGE_ID that made the client: 1 or 2. A client may use both.
	Minor uint32
	// Implementation and Domain are the first 128 bytes of the name and of the domain in its nfs_impl_id4; "" without one.
	Implementation, Domain string
	// Wanted is true if the client has bound a connection for callbacks. Reached is true if one of its sessions has such a
	// connection now and the last callback over it was answered, and Back is the address of the client there.
	Wanted, Reached bool
	Back            netip.AddrPort
}

// maxTold is the maximum length of About.Implementation and About.Domain, in bytes. The client may send 1024.
const maxTold = 128

func toldOf(minor uint32, impl *wire.OptNFSImplID4) About {
	a := About{Minor: minor}
	if impl.Present {
		name, domain := impl.Value.Name, impl.Value.Domain
		a.Implementation, a.Domain = string(name[:min(len(name), maxTold)]), string(domain[:min(len(domain), maxTold)])
	}
	return a
}

// AboutOf returns what is known about a client. It returns false if c is no client of minor version 1 or 2. It may be
// called from any goroutine.
func AboutOf(c *state.Client) (a About, ok bool) {
	x := clientOf(c)
	if x == nil {
		return About{}, false
	}
	a = x.told
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, s := range x.sessions {
		a.Wanted = a.Wanted || s.wanted.Load()
		if !s.wanted.Load() || !s.connected() {
			continue
		}
		a.Reached = true
		for _, b := range *s.conns.Load() {
			if b.back && b.conn.Caller() != nil {
				a.Back = b.conn.Peer
			}
		}
	}
	return a, true
}
