package nfs41

import (
	"slices"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// maxSecurity is the maximum number of callback credentials that the server reads from one request.
// It ignores further ones. maxContexts is the maximum number of contexts of RPCSEC_GSS that a
// session keeps for callbacks.
const (
	maxSecurity = 16
	maxContexts = 4
)

// A BackContext is a context of RPCSEC_GSS that a client has made, used for calls to that
// client (RFC 8881 §18.36.3).
type BackContext interface {
	// Caller returns a Caller that makes calls on k under the context.
	Caller(k rpc.Caller) rpc.Caller
	// CallSize returns the maximum length of a call with n bytes of arguments.
	CallSize(n int) int
	// Usable reports whether calls can be made at the given time. Expiry returns the time at which
	// the context expires.
	Usable(now time.Time) bool
	Expiry() time.Time
}

// security holds the credentials for calls over a session's backchannel that the client offered
// (RFC 8881 §2.10.8.2). To change them, a goroutine replaces the security of the session.
type security struct {
	// plain is true if the client offered AUTH_SYS or AUTH_NONE, with the credential cred.
	plain bool
	cred  rpc.AuthBytes
	// contexts are the contexts that the client offered. first is true if it offered one of them
	// before AUTH_SYS and AUTH_NONE.
	contexts []BackContext
	first    bool
}

// parameters iterates over a list of callback_sec_parms4.
type parameters interface {
	Next(p *wire.CallbackSecParms4) bool
}

// choose returns the credentials that a caller offers for callbacks. If an RPCSEC_GSS context in
// the list does not exist or belongs to another caller, it returns NFS4ERR_NOENT; if an AUTH_SYS
// credential is invalid, NFS4ERR_INVAL. A client that offers nothing gets no callbacks.
func (m *Minor) choose(by *rpc.Cred, list parameters) (*security, nfs4.Status) {
	s := new(security)
	var p wire.CallbackSecParms4
	for i := 0; i < maxSecurity && list.Next(&p); i++ {
		switch p.Secflavor {
		case wire.AuthNone:
			s.setSysCred(rpc.AuthBytes{})
		case wire.AuthSys:
			c := &p.SysCred
			cred, err := rpc.AuthSysCred(c.Stamp, string(c.Machinename), c.UID, c.GID, c.Gids)
			if err != nil {
				return nil, wire.NFS4ErrInvalid
			}
			s.setSysCred(cred)
		case wire.RPCSECGSS:
			var c BackContext
			if h := &p.GSSHandles; m.cfg.BackContext != nil && by.Flavor == rpc.AuthGSS {
				c = m.cfg.BackContext(by, h.HandleFromServer, h.HandleFromClient, rpc.GSSService(h.Service))
			}
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

func (s *security) setSysCred(cred rpc.AuthBytes) {
	if !s.plain {
		s.plain, s.cred = true, cred
	}
}

// newest returns the last maxContexts contexts.
func newest(c []BackContext) []BackContext { return c[max(len(c)-maxContexts, 0):] }

// with combines the credentials s with those of a later BACKCHANNEL_CTL: it adds the new contexts, and a
// new plain credential replaces the earlier one (RFC 8881 §18.33.3).
func (s *security) with(more *security, now time.Time) *security {
	if !more.plain && len(more.contexts) == 0 {
		return s
	}
	all := &security{plain: s.plain, cred: s.cred, first: more.first}
	if more.plain {
		all.plain, all.cred = true, more.cred
	}
	for _, c := range s.contexts {
		// Expired contexts are kept, and reported by SEQUENCE, until the client offers new ones.
		if len(more.contexts) == 0 || c.Usable(now) {
			all.contexts = append(all.contexts, c)
		}
	}
	all.contexts = newest(slices.Concat(all.contexts, more.contexts))
	return all
}

// context returns the context for the next call: the usable one that expires last. It returns nil if none
// is usable, or if the client offered AUTH_SYS or AUTH_NONE before all contexts.
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

// usable reports whether there is a credential or a context for calls to the client.
func (s *security) usable(now time.Time) bool { return s.plain || s.context(now) != nil }

// status returns the flags of a SEQUENCE result about the contexts (RFC 8881 §18.46.3).
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
