package nfs4

import (
	"errors"
	"strconv"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/identity"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// sendsNames reports whether the caller gets users and groups by name. A caller with
// RPCSEC_GSS does, because it is itself known by name. All callers do if the configuration
// says so. Other callers get the decimal digits of the numbers (RFC 7530 §5.9).
func (k *Compound) sendsNames() bool {
	p := k.Program
	return p.identity != nil && (p.sendNames || k.Call.Cred.Flavor == rpc.AuthGSS)
}

// names looks up the names of the owner and the group of f.attr, if n contains needOwner or
// needGroup and the caller gets names.
func (f *facts) names(n need) Status {
	k := f.k
	f.owner, f.group = f.owner[:0], f.group[:0]
	if n&(needOwner|needGroup) == 0 || !k.sendsNames() {
		return wire.NFS4OK
	}
	client := k.Call.Conn.Peer.Addr()
	var err error
	if n&needOwner != 0 {
		f.owner, err = k.Program.identity.Append(f.owner, client, identity.User, f.attr.UID, k.Op.Try)
	}
	if n&needGroup != 0 && err == nil {
		f.group, err = k.Program.identity.Append(f.group, client, identity.Group, f.attr.GID, k.Op.Try)
	}
	if err != nil {
		return k.Block(k.Program.identity)
	}
	return wire.NFS4OK
}

// putIdentity writes owner or owner_group (RFC 8881 §5.9): the name, or the decimal digits
// of the number if the name is empty.
func putIdentity(w *xdr.Writer, name []byte, id uint32) {
	if len(name) > 0 {
		w.Opaque(name)
		return
	}
	var b [10]byte
	w.Opaque(strconv.AppendUint(b[:0], uint64(id), 10))
}

// number returns the numeric ID of the owner or group that a client names.
func (a *assignment) number(kind identity.Kind, name []byte) uint32 {
	if len(name) == 0 { // an empty name is invalid; Linux's server answers the same
		a.fail(wire.NFS4ErrInvalid)
		return 0
	}
	m := a.k.Program.identity
	if m == nil {
		id, ok := identity.ParseNumber(name)
		if !ok {
			a.fail(wire.NFS4ErrBadOwner)
		}
		return id
	}
	id, err := m.Number(a.k.Call.Conn.Peer.Addr(), kind, name, a.k.Op.Try)
	switch {
	case errors.Is(err, vfs.ErrWouldBlock):
		a.fail(a.k.Block(m))
	case errors.Is(err, vfs.ErrDelay):
		a.fail(wire.NFS4ErrDelay)
	case err != nil:
		a.fail(wire.NFS4ErrBadOwner)
	}
	return id
}
