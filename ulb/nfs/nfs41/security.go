package nfs41

import (
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// maxSecurity is how many credentials for callbacks of one request are looked at.
const maxSecurity = 16

// security is the credential that calls over a session's backchannel carry: one of those
// that the client offered (RFC 8881 §2.10.8.2).
type security struct {
	// usable: one was offered that can be used here.
	usable bool
	cred   rpc.AuthBytes
}

// parameters reads a list of callback_sec_parms4.
type parameters interface {
	Next(p *wire.CallbackSecParms4) bool
}

// choose takes the first of AUTH_SYS and AUTH_NONE that the client offers. NOENT: it
// offers contexts of RPCSEC_GSS alone, and there is none such. A client that offers
// nothing is not called.
func (s *security) choose(m *Minor, list parameters) nfs4.Status {
	unknown := false
	var p wire.CallbackSecParms4
	for i := 0; i < maxSecurity && list.Next(&p); i++ {
		switch p.Secflavor {
		case wire.AuthNone:
			s.take(rpc.AuthBytes{})
		case wire.AuthSys:
			c := &p.SysCred
			cred, err := rpc.AuthSysCred(c.Stamp, string(c.Machinename), c.UID, c.GID, c.Gids)
			if err != nil {
				return wire.NFS4ErrInvalid
			}
			s.take(cred)
		case wire.RPCSECGSS:
			unknown = unknown || m.cfg.GSSHandle == nil || !m.cfg.GSSHandle(p.GSSHandles.HandleFromServer)
		}
	}
	if unknown && !s.usable {
		return wire.NFS4ErrNoEnt
	}
	return wire.NFS4OK
}

func (s *security) take(cred rpc.AuthBytes) {
	if !s.usable {
		s.usable, s.cred = true, cred
	}
}
