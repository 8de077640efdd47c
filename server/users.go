package server

import (
	"time"

	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/internal/loglimit"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/identity"
)

// openUsers sets s.users, which translates between names and numbers of this machine's users and
// groups, and s.groups, which looks up the groups of callers.
func (s *Server) openUsers() {
	s.users = identity.New(identity.Config{Domain: s.cfg.NFS.Domain})
	limit := loglimit.Limit[struct{}]{Every: clientLineEvery}
	s.groups = identity.NewGroups(identity.GroupsConfig{Look: s.users.GroupsOf, Failed: func(uid uint32, err error) {
		leftOut, due := limit.Due(struct{}{}, time.Now())
		if !due {
			return
		}
		s.log.Warn("groups of a user cannot be looked up: calls of that user to exports with manage_gids have to wait, unless the groups of before hold",
			zap.Uint32("uid", uid), zap.Error(err), zap.Int("others_before", leftOut),
			zap.String("remedy", "see what holds up the services of the lines passwd and initgroups or group of /etc/nsswitch.conf: getent passwd UID, getent initgroups NAME"))
	}})
}
