package server

import (
	"time"

	"go.uber.org/zap/zapcore"

	"github.com/nfsrdmad/nfsrdmad/server/config"
)

// applies has, for each key whose changes a reload applies (config.Described.Reloads), the function that makes the running
// server use the value in to. Some functions apply several keys. A nil function is that of a key which the server reads
// from inForce.
var applies = map[string]func(s *Server, to *config.Config){
	"log_level":                     func(s *Server, to *config.Config) { s.applyLevel(to.LogLevel) },
	"drain_timeout":                 nil,
	"slow_call":                     func(s *Server, to *config.Config) { s.rpc.SetSlow(time.Duration(to.SlowCall)) },
	"limits.connections_per_client": applyLimits,
	"limits.first_call_timeout":     applyLimits,
	"kerberos.realm":                applyPrincipals,
	"kerberos.account":              applyPrincipals,
	"kerberos.principals":           applyPrincipals,
}

// apply makes the running server use the values of cfg for the keys whose changes a reload applies, and returns those that
// have changed since the configuration was last read. A key that has not changed is not applied again, so that a level
// of the log that the administrator has set (SetLevel) outlasts a reload for another reason.
func (s *Server) apply(cfg *config.Config) (changed []string) {
	changed = cfg.Differing(s.inForce(), true)
	s.reread.Store(cfg)
	for _, key := range changed {
		if apply := applies[key]; apply != nil {
			apply(s, cfg)
		}
	}
	return changed
}

// inForce returns the configuration that was read last. Its values of keys whose changes a reload applies are in force;
// s.cfg has the values of all other keys.
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
