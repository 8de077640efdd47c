package server

import (
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/identity"
)

// openUsers sets s.users, which translates between names and numbers of this machine's users and
// groups, and s.groups, which looks up the groups of callers.
func (s *Server) openUsers() {
	s.users = identity.New(identity.Config{Domain: s.cfg.NFS.Domain})
	s.groups = identity.NewGroups(identity.GroupsConfig{Look: s.users.GroupsOf, Failed: (&failedGroups{log: s.log}).failed})
}

// failedGroups writes log lines about users whose groups cannot be looked up, at most one line per
// clientLineEvery.
type failedGroups struct {
	log *zap.Logger

	mu      sync.Mutex
	last    time.Time
	leftOut int
}

// failed logs that the groups of a user cannot be looked up. It is the callback
// identity.GroupsConfig.Failed.
func (f *failedGroups) failed(uid uint32, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if !f.last.IsZero() && now.Sub(f.last) < clientLineEvery {
		f.leftOut++
		return
	}
	f.log.Warn("groups of a user cannot be looked up: calls of that user to exports with manage_gids have to wait, unless the groups of before hold",
		zap.Uint32("uid", uid), zap.Error(err), zap.Int("others_before", f.leftOut),
		zap.String("remedy", "see what holds up the services of the lines passwd and initgroups or group of /etc/nsswitch.conf: getent passwd UID, getent initgroups NAME"))
	f.last, f.leftOut = now, 0
}
