package nfs41

import (
	"slices"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// maxSecurity is how many credentials for callbacks of one request are looked at, and
// maxContexts how many contexts of RPCSEC_GSS a session keeps for them.
const (
	maxSecurity = 16
	maxContexts = 4
)

// A BackContext is a context of RPCSEC_GSS that a client made, for calls to that client
// (RFC 8881 §18.36.3).
type BackContext interface {
	// Caller makes calls on k under the context.
	Caller(k rpc.Caller) rpc.Caller
	// CallSize is how long a call gets at most whose arguments have n bytes.
	CallSize(n int) int
	// Usable says whether calls can be made still, and Expiry when that ends.
	Usable(now time.Time) bool
	Expiry() time.Time
}

// security is what calls over a session's backchannel go out under: one of the
// credentials that the client offered, in its order (RFC 8881 §2.10.8.2). It is replaced,
// never changed.
type security struct {
	// plain: AUTH_SYS or AUTH_NONE was offered, and cred is that.
	plain bool
	cred  rpc.AuthBytes
	// contexts were offered, before plain if first is true.
	contexts []BackContext
	first    bool
}

// parameters reads a list of callback_sec_parms4.
type parameters interface {
	Next(p *wire.CallbackSecParms4) bool
}

// choose takes what a caller offers. NOENT: a context of RPCSEC_GSS that there is not, or
// not of the caller's own. A client that offers nothing is not called.
func (m *Minor) choose(by *rpc.Cred, list parameters) (*security, nfs4.Status) {
	s := new(security)
	var p wire.CallbackSecParms4
	for i := 0; i < maxSecurity && list.Next(&p); i++ {
		switch p.Secflavor {
		case wire.AuthNone:
			s.take(rpc.AuthBytes{})
		case wire.AuthSys:
			c := &p.SysCred
			cred, err := rpc.AuthSysCred(c.Stamp, string(c.Machinename), c.UID, c.GID, c.Gids)
			if err != nil {
				return nil, wire.NFS4ErrInvalid
			}
			s.take(cred)
		case wire.RPCSECGSS:
			c := m.context(by, &p.GSSHandles)
			if c == nil {
				return nil, wire.NFS4ErrNoEnt
			}
			s.first = s.first || !s.plain
			s.contexts = append(s.contexts, c)
		}
	}
	s.contexts = newest(s.contexts)
	return s, wire.NFS4OK
}

// context is what handles stand for that a caller offers, or nil.
func (m *Minor) context(by *rpc.Cred, h *wire.GSSCBHandles4) BackContext {
	if m.cfg.BackContext == nil || by.Flavor != rpc.AuthGSS {
		return nil
	}
	return m.cfg.BackContext(by, h.HandleFromServer, h.HandleFromClient, rpc.GSSService(h.Service))
}

func (s *security) take(cred rpc.AuthBytes) {
	if !s.plain {
		s.plain, s.cred = true, cred
	}
}

// newest are the last of contexts, as many as are kept.
func newest(c []BackContext) []BackContext { return c[max(len(c)-maxContexts, 0):] }

// with is s after the client offered more by BACKCHANNEL_CTL: contexts are added, and
// another credential takes the place of the one before (RFC 8881 §18.33.3).
func (s *security) with(more *security, now time.Time) *security {
	if !more.plain && len(more.contexts) == 0 {
		return s
	}
	all := &security{plain: s.plain, cred: s.cred, first: more.first}
	if more.plain {
		all.plain, all.cred = true, more.cred
	}
	for _, c := range s.contexts {
		// Those that ended are told of until there is another.
		if len(more.contexts) == 0 || c.Usable(now) {
			all.contexts = append(all.contexts, c)
		}
	}
	all.contexts = newest(slices.Concat(all.contexts, more.contexts))
	return all
}

// context is the one that calls go out under, the one that lasts longest, or nil.
func (s *security) context(now time.Time) (best BackContext) {
	if s.plain && !s.first {
		return nil
	}
	for _, c := range s.contexts {
		if c.Usable(now) && (best == nil || c.Expiry().After(best.Expiry())) {
			best = c
		}
	}
	return best
}

// usable says whether calls can go out.
func (s *security) usable(now time.Time) bool { return s.plain || s.context(now) != nil }

// status is what SEQUENCE says of the contexts (RFC 8881 §18.46.3).
func (s *security) status(now time.Time, lease time.Duration) uint32 {
	if len(s.contexts) == 0 {
		return 0
	}
	flags := uint32(wire.Seq4StatusCBGSSContextsExpired)
	for _, c := range s.contexts {
		if !c.Usable(now) {
			continue
		}
		if c.Expiry().Sub(now) > lease {
			return 0
		}
		flags = wire.Seq4StatusCBGSSContextsExpiring
	}
	return flags
}
