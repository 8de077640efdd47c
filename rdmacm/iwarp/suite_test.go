package iwarp

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
)

// TestConformance runs the suite of rdmatest with the configurations that use different code.
func TestConformance(t *testing.T) {
	for name, cfg := range map[string]Config{
		"default":  {},
		"crc=off":  {CRC: CRCOff},
		"fpdu=mss": {CRC: CRCOff, MaxFPDU: FPDUMSS},
		// The suite's Writes of 10,000 bytes must fit an FPDU.
		"fpdu=12K":  {CRC: CRCOn, MaxFPDU: 12 << 10},
		"rtr=read":  {RTR: wire.RTRRead},
		"revision1": {Revision: 1, CRC: CRCOff},
	} {
		t.Run(name, func(t *testing.T) {
			rdmatest.Run(t, func(t *testing.T) rdmacm.Provider { return provider(t, cfg) }, rdmatest.Options{
				Quick: name != "default",
				Counted: func(t *testing.T, seats rdmacm.Seats) rdmacm.Provider {
					cfg := cfg
					cfg.Seats = seats
					return provider(t, cfg)
				},
			})
		})
	}
}
