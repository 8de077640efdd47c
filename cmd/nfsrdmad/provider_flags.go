package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/providers"
)

// providerFlags are the flags of commands that connect over RDMA.
type providerFlags struct {
	name  string
	noCRC bool
}

func (p *providerFlags) add(f *pflag.FlagSet) {
	all := providers.Names()
	f.StringVar(&p.name, "rdma-provider", all[0], "what carries RDMA: "+strings.Join(all, " or ")+" (RDMA devices)")
	f.BoolVar(&p.noCRC, "no-crc", false, "over iWARP in software, do not ask for CRCs (the server may)")
}

// open opens the provider, which all connections of the command share, if one of the transports
// needs it.
func (p *providerFlags) open(transports ...client.Transport) (providers.Provider, error) {
	if !slices.Contains(transports, client.RDMA) {
		return nil, nil
	}
	var cfg providers.Config
	if p.noCRC {
		cfg.CRC = "off"
	}
	opened, err := providers.Open(p.name, cfg)
	if err != nil {
		return nil, usageError{fmt.Errorf("--rdma-provider %s: %w", p.name, err)}
	}
	return opened, nil
}
