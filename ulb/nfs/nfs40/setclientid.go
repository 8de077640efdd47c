package nfs40

import (
	"net/netip"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpcbind"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// maxSetClientID is the size of the largest result of SETCLIENTID, in bytes. That is
// NFS4ERR_CLID_INUSE with the address of the client that uses the name.
const maxSetClientID = 4 + maxNetID + 4 + maxAddress

// setClientID is SETCLIENTID (RFC 7530 §16.33).
func (m *Minor) setClientID(k *nfs4.Compound, args *wire.SetClientID4Args) nfs4.Status {
	if !k.Served() {
		return nfs4.Denied
	}
	from := k.Call.Conn.Peer.Addr()
	id := state.Identity{
		Owner: args.Client.ID, Verifier: state.Verifier(args.Client.Verifier), Caller: k.Caller(),
		Companion: &client{channel: m.channel(&k.Call.Cred)},
	}
	cb := callbackOf(args, from)
	for {
		r := m.state.SetClientID(&id, cb)
		switch {
		case r.Expired != nil && k.Call.Try:
			return k.Block(state.Disk{})
		case r.Expired != nil:
			if m.state.Evict(r.Expired) != nil {
				return wire.NFS4ErrDelay
			}
		case r.Verdict == state.NameTaken:
			res := wire.NetAddr4{RNetid: []byte(r.InUse.NetID), RAddr: []byte(r.InUse.Address)}
			res.Encode(k.W)
			k.KeepBody()
			return k.Answer(r.Verdict)
		case r.Verdict != state.Granted:
			return k.Answer(r.Verdict)
		default:
			res := wire.SetClientID4ResOK{Clientid: r.Client.ID, SetclientidConfirm: wire.Verifier4(r.Confirm)}
			res.Encode(k.W)
			return wire.NFS4OK
		}
	}
}

// callbackOf returns the program and the address for callbacks in the request. It drops an address that
// is longer than maxAddress, or whose netid is longer than maxNetID.
func callbackOf(args *wire.SetClientID4Args, from netip.Addr) state.Callback {
	cb := state.Callback{Program: args.Callback.CBProgram}
	if a := &args.Callback.CBLocation; len(a.RNetid) <= maxNetID && len(a.RAddr) <= maxAddress {
		cb.NetID, cb.Address = string(a.RNetid), string(a.RAddr)
		cb.Dial = callbackAddress(cb.NetID, cb.Address, from)
	}
	return cb
}

// maxNetID and maxAddress are the maximum lengths of a netid and of a universal address that the server
// keeps, in bytes. Every valid one is shorter. A Linux client has no room for longer ones in the answer that
// its name is in use.
const (
	maxNetID   = 8
	maxAddress = 56
)

// callbackAddress returns the address for callbacks to the client that named this netid and this universal
// address: the IP address from which it calls (caller), with the port that it named. It returns the zero
// value if the client named another IP address, which may be another machine's, or no valid TCP address.
func callbackAddress(netid, address string, caller netip.Addr) netip.AddrPort {
	if netid != rpcbind.TCP && netid != rpcbind.TCP6 {
		return netip.AddrPort{}
	}
	a, err := rpcbind.ParseUniversalAddress(address)
	if err != nil || a.Port() == 0 || a.Addr().Unmap() != caller.Unmap().WithZone("") {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(caller.Unmap(), a.Port())
}

// channel returns a new Channel for a client whose SETCLIENTID has the credential c, or nil if the
// server cannot call the client back.
func (m *Minor) channel(c *rpc.Cred) *Channel {
	switch {
	case m.cfg.Dial == nil:
		return nil
	case c.Flavor != rpc.AuthGSS:
		return newChannel(m.dialer, m.cred, nil)
	case m.cfg.Protect == nil:
		return nil
	}
	if p := m.cfg.Protect(c); p != nil {
		return newChannel(m.dialer, rpc.AuthBytes{}, p)
	}
	return nil
}

// setClientIDConfirm is SETCLIENTID_CONFIRM (RFC 7530 §16.34). If it succeeds, it starts
// Channel.Probe, which finds out in the background whether the client can be called back.
func (m *Minor) setClientIDConfirm(k *nfs4.Compound, args *wire.SetClientIDConfirm4Args) nfs4.Status {
	v := m.state.ConfirmClientID(args.Clientid, state.Verifier(args.SetclientidConfirm), nfs4.PrincipalOf(&k.Call.Cred))
	if v != state.Granted {
		return k.Answer(v)
	}
	if c := m.state.Client(args.Clientid); c != nil {
		if ch := companion(c).channel; ch != nil {
			ch.Retarget(m.state.CallbackOf(c))
			ch.Probe()
		}
	}
	return wire.NFS4OK
}
