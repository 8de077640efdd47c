package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/providers"
	"github.com/nfsrdmad/nfsrdmad/server/config"
)

// noArgs refuses all arguments that are not flags.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("%q is not understood; see '%s --help'", args[0], c.CommandPath())}
	}
	return nil
}

// oneArgument requires exactly one argument.
func oneArgument(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usageError{fmt.Errorf("'%s' takes %s; see '%s --help'", c.CommandPath(), what, c.CommandPath())}
		}
		return nil
	}
}

// A durationFlag is a duration in the form of the configuration file: with a unit, and within a
// range.
type durationFlag struct {
	value       *time.Duration
	least, most time.Duration
}

// durationVar defines a flag for a duration. usual is its default; least and most are its limits.
func durationVar(f *pflag.FlagSet, value *time.Duration, name string, usual, least, most time.Duration, usage string) {
	*value = usual
	f.Var(&durationFlag{value, least, most}, name, usage)
}

func (d *durationFlag) String() string {
	if d.value == nil {
		return ""
	}
	return config.Duration(*d.value).String()
}

func (d *durationFlag) Type() string { return "duration" }

func (d *durationFlag) Set(s string) error {
	var v config.Duration
	if err := v.UnmarshalText([]byte(s)); err != nil {
		return err
	}
	if v := time.Duration(v); v < d.least || v > d.most {
		return fmt.Errorf("use a value from %v to %v", config.Duration(d.least), config.Duration(d.most))
	}
	*d.value = time.Duration(v)
	return nil
}

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
