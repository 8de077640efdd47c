package server

import (
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/server/logline"
)

// applies has, for each key whose changes a reload applies (config.Described.Reloads), the function that makes the running
// server use the value in to. Some functions apply several keys. A nil function is that of a key which the server reads
// from inForce. If a function returns an error, the former value stays in force.
var applies = map[string]func(s *Server, to *config.Config) error{
	"log_level":     always(func(s *Server, to *config.Config) { s.applyLevel(to.LogLevel) }),
	"metrics":       (*Server).applyMetrics,
	"status_page":   (*Server).applyStatusPage,
	"drain_timeout": nil, "status_page_open": nil,
	"slow_call":                     always(func(s *Server, to *config.Config) { s.rpc.SetSlow(time.Duration(to.SlowCall)) }),
	"limits.connections_per_client": always(applyLimits),
	"limits.first_call_timeout":     always(applyLimits),
	"kerberos.realm":                always(applyPrincipals),
	"kerberos.account":              always(applyPrincipals),
	"kerberos.principals":           always(applyPrincipals),
}

// always is a function of applies that cannot fail.
func always(apply func(*Server, *config.Config)) func(*Server, *config.Config) error {
	return func(s *Server, to *config.Config) error {
		apply(s, to)
		return nil
	}
}

// apply makes the running server use the values of cfg for the keys whose changes a reload applies, and returns those that
// have changed since the configuration was last read. A key that has not changed is not applied again, so that a level
// of the log that the administrator has set (SetLevel) outlasts a reload for another reason. The keys in kept have
// changed, but have their former values, because the new ones cannot be used; the next reload tries them again.
func (s *Server) apply(cfg *config.Config) (changed, kept []string) {
	s.reloads.applying.Lock()
	defer s.reloads.applying.Unlock()
	former, next := s.inForce(), *cfg
	for _, key := range cfg.Differing(former, true) {
		if apply := applies[key]; apply != nil {
			if err := apply(s, cfg); err != nil {
				s.log.Warn(logline.ValueKept, zap.String("key", key), zap.Error(err))
				next.Keep(key, former)
				kept = append(kept, key)
				continue
			}
		}
		changed = append(changed, key)
	}
	s.reread.Store(&next)
	return changed, kept
}

// inForce returns the configuration that was read last, with the former values of keys that apply has kept. Its values of
// keys whose changes a reload applies are in force; s.cfg has the values of all other keys.
func (s *Server) inForce() *config.Config {
	if c := s.reread.Load(); c != nil {
		return c
	}
	return s.cfg
}

// EndsWithin is the function EndsWithin for the configuration that is in force.
func (s *Server) EndsWithin() time.Duration { return EndsWithin(s.inForce()) }

// applyLevel sets the level of the log to a value of the key log_level.
func (s *Server) applyLevel(level string) {
	if l, err := zapcore.ParseLevel(level); err == nil {
		s.admin.level.SetLevel(l)
	}
}

func applyLimits(s *Server, to *config.Config) {
	s.census.SetLimits(perClient(&to.Limits, s.seats()), time.Duration(to.Limits.FirstCallTimeout))
}

func applyPrincipals(s *Server, to *config.Config) { s.namePrincipals(&to.Kerberos) }
