package rdmatest

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The in-memory provider passes the suite of its own package.
func TestConformance(t *testing.T) {
	for name, cfg := range map[string]Config{
		"Default": {}, "Quiet": {Quiet: true}, "NoRemoteInvalidation": {NoRemoteInvalidation: true},
		"ShortSends": {ShortSends: true},
	} {
		t.Run(name, func(t *testing.T) {
			Run(t, func(*testing.T) rdmacm.Provider { return NewConfig(cfg) }, Options{
				Counted: func(_ *testing.T, seats rdmacm.Seats) rdmacm.Provider {
					cfg := cfg
					cfg.Seats = seats
					return NewConfig(cfg)
				},
			})
		})
	}
}
