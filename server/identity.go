package server

import (
	"cmp"
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/internal/loglimit"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss/krb5"
	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/server/logline"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/identity"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs40"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs41"
)

// openUsers sets s.users, which translates between names and numbers of this machine's users and
// groups, and s.groups, which looks up the groups of callers.
func (s *Server) openUsers() {
	s.users = identity.New(identity.Config{Domain: s.cfg.NFS.Domain})
	limit := loglimit.Limit[struct{}]{Every: clientLineEvery}
	s.groups = identity.NewGroups(identity.GroupsConfig{Look: s.users.GroupsOf, Failed: func(uid uint32, err error) {
		if leftOut, due := limit.Due(struct{}{}, time.Now()); due {
			s.log.Warn(logline.GroupsUnknown,
				zap.Uint32("uid", uid), zap.Error(err), zap.Int("others_before", leftOut),
				zap.String("remedy", "see what holds up the services of the lines passwd and initgroups or group of /etc/nsswitch.conf: getent passwd UID, getent initgroups NAME"))
		}
	}})
}

// principals maps principals to users of this machine. It does not change; a reload makes another one.
type principals struct {
	realm   string
	format  string // config.Kerberos.Account
	named   map[string]string
	account func(user string) (uid, gid uint32, groups []uint32, ok bool, err error)
}

// identify returns the user of a principal. The configuration names users for some principals. Any
// other principal of the server's realm is the user that format names, unless its name has a '/' or
// a '\'. For all others ok is false.
func (p *principals) identify(principal string) (uid, gid uint32, groups []uint32, ok bool, err error) {
	if user, named := p.named[principal]; named {
		return p.account(user)
	}
	user, realm, _ := strings.Cut(principal, "@")
	if p.realm == "" || realm != p.realm || strings.ContainsAny(user, `/\`) {
		return 0, 0, nil, false, nil
	}
	return p.account(strings.NewReplacer("%u", user, "%r", realm, "%d", strings.ToLower(realm)).Replace(p.format))
}

// identify returns the user of a principal, as principals.identify. The server passes it as gss.Config.Identify.
func (s *Server) identify(principal string) (uid, gid uint32, groups []uint32, ok bool, err error) {
	return s.principals.Load().identify(principal)
}

// namePrincipals makes identify use the keys realm, account and principals of k.
func (s *Server) namePrincipals(k *config.Kerberos) {
	who := &principals{realm: k.Realm, format: cmp.Or(k.Account, "%u"), named: make(map[string]string), account: s.users.Account}
	for _, word := range k.Principals {
		principal, user, _ := config.SplitPrincipal(word)
		who.named[principal] = user
	}
	if who.realm == "" {
		realm, err := krb5.DefaultRealm("")
		if err != nil && s.exports.WantKerberos() && !errors.Is(err, os.ErrNotExist) {
			s.log.Warn(logline.RealmUnknown, zap.Error(config.Cause(err)))
		}
		who.realm = realm
	}
	s.principals.Store(who)
}

// openKerberos sets up RPCSEC_GSS with Kerberos for the calls of clients and for callbacks to
// them.
func (s *Server) openKerberos() {
	k := &s.cfg.Kerberos
	mechanism := krb5.New(krb5.Config{Keytab: k.Keytab, KeytabFailed: func(err error) {
		s.log.Warn(logline.KeytabUnread, zap.Error(err))
	}})
	s.namePrincipals(k)
	s.checkKeytab = func() {
		if err := mechanism.Check(); err != nil && s.exports.WantKerberos() {
			s.log.Warn(logline.KeytabUnfit, zap.Error(err))
		}
		if err := mechanism.Exposed(); err != nil && s.exports.WantKerberos() {
			s.log.Warn(logline.KeytabExposed, zap.Error(err))
		}
	}
	s.checkKeytab()
	s.gss = gss.New(gss.Config{
		Mechanisms: []gss.Mechanism{mechanism}, Identify: s.identify,
		Notify: s.contextRefused, MaxContexts: int(min(s.cfg.Memory.State/4/gss.ContextSize, maxContexts)),
	})
	s.rpc.Protect(rpc.AuthGSS, s.gss)
	s.initiators = gss.NewInitiators(func(own string) gss.Mechanism {
		return krb5.New(krb5.Config{Keytab: k.Keytab, Principal: own})
	})
}

// maxContexts is the largest number of RPCSEC_GSS contexts of callers.
const maxContexts = 64 << 10

// contextTime is the longest time for making a new RPCSEC_GSS context for callbacks when the old
// one has ended.
const contextTime = 10 * time.Second

// protectCallbacks returns a function that sets up Kerberos for callbacks to an NFSv4.0 client
// (RFC 7530 §3.3.3). The callbacks have the protection of the client's calls. They go to the
// principal of the client's calls, from the server principal that the client called. If the
// client's principal or the principal that it called is not a service's, there are no callbacks.
// The server passes protectCallbacks as nfs40.Config.Protect.
func (s *Server) protectCallbacks(c *rpc.Cred) nfs40.Protect {
	if !krb5.IsService(c.Principal) || !krb5.IsService(c.Target) {
		return nil
	}
	cfg, own := gss.ClientConfig{Target: c.Principal, Service: c.GSS, Timeout: contextTime}, c.Target
	return func(ctx context.Context, program, version uint32) (func(context.Context, rpc.Caller) (rpc.Client, error), error) {
		cfg := cfg
		cfg.Program, cfg.Version = program, version
		p, err := s.initiators.Prepare(ctx, own, cfg)
		if err != nil {
			s.log.Debug("a client with Kerberos is not called back", zap.String("principal", cfg.Target), zap.Error(err))
			return nil, err
		}
		return func(ctx context.Context, k rpc.Caller) (rpc.Client, error) {
			c, err := p.Client(ctx, k)
			if err != nil {
				s.log.Debug("a client with Kerberos takes no callbacks: it needs `rpc.svcgssd -n`, and a key of its own", zap.String("principal", cfg.Target), zap.Error(err))
				return nil, err
			}
			s.log.Debug("a client with Kerberos is called back", zap.String("principal", cfg.Target), zap.String("as", own))
			return c, nil
		}, nil
	}
}

// backContext returns the RPCSEC_GSS context that a client made for callbacks, or nil. The server
// passes it as nfs41.Config.BackContext.
func (s *Server) backContext(by *rpc.Cred, server, client []byte, service rpc.GSSService) nfs41.BackContext {
	if b := s.gss.Back(server, client, service, by.Principal); b != nil {
		return b
	}
	return nil
}
