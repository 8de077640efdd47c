package server

import (
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// A provider is an entry of the registry: an implementation of RDMA.
type provider struct {
	// settings are its keys in the configuration.
	settings []setting
	// findings report for doctor what this machine has for it.
	findings []func() Finding
	open     func(*Server) (rdmaDevice, error)
}

// An rdmaDevice is an open provider.
type rdmaDevice interface {
	rdmacm.Provider
	// traffic returns its own counters, besides those of the transport.
	traffic() traffic
}

// softwareRNIC is iWARP in user space, over TCP. It needs no hardware.
var softwareRNIC = provider{
	settings: []setting{
		choice("rnic.crc", func(c *Config) *Choice { return &c.RNIC.CRC }, []string{"peer", "on", "off"}, "",
			"whether the software RNIC asks for a CRC32C on each frame (RFC 5044 §4.4): `on`, `off`, or `peer` for leaving it to the peer. When either side asks, both do it. Linux's siw does not ask"),
		{key: "rnic.fpdu", usual: quoted("auto"), check: checkFPDU,
			meaning: "frames sent: `auto` makes them as large as the standard allows, the cheapest for peers in software, or, with CRCs, as fits a TCP segment; `mss` fits each into a TCP segment, as adapters in hardware may insist; or a number of bytes from 128 to 64768"},
	},
	findings: []func() Finding{findDevices, findSIW},
	open:     openSoftwareRNIC,
}

type softwareDevice struct{ *iwarp.Provider }

func openSoftwareRNIC(s *Server) (rdmaDevice, error) {
	cfg := iwarp.Config{
		StallTimeout: time.Duration(s.cfg.Limits.StallTimeout), SetupTimeout: time.Duration(s.cfg.Limits.SetupTimeout),
		Census: s.census, Event: s.rdmaEvent,
	}
	var err error
	if cfg.CRC, err = iwarp.ParseCRCMode(string(s.cfg.RNIC.CRC)); err != nil {
		return nil, err
	}
	if cfg.MaxFPDU, err = iwarp.ParseFPDUSize(s.cfg.RNIC.FPDU); err != nil {
		return nil, err
	}
	p, err := iwarp.New(cfg)
	if err != nil {
		return nil, err
	}
	return softwareDevice{p}, nil
}

func (d softwareDevice) traffic() traffic {
	c := d.Counters()
	return traffic{malformed: []count{
		{"setup", c.SetupFailed + c.Rejected},
		{"terminate_sent", total(c.TerminatesOut)}, {"terminate_received", total(c.TerminatesIn)}, {"empty", c.EmptyEnds},
	}}
}

// total returns the sum over all causes.
func total(by map[wire.Cause]uint64) (sum uint64) {
	for _, n := range by {
		sum += n
	}
	return sum
}
