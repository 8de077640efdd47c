package main

import (
	"errors"
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

// someArguments requires at least one argument.
func someArguments(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usageError{fmt.Errorf("'%s' takes %s; see '%s --help'", c.CommandPath(), what, c.CommandPath())}
		}
		return nil
	}
}

// atMostOne allows one argument, or none.
func atMostOne(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > 1 {
			return usageError{fmt.Errorf("'%s' takes %s at most; see '%s --help'", c.CommandPath(), what, c.CommandPath())}
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

// connectFlags are the flags of commands that connect to a server.
type connectFlags struct {
	securityFlags
	provider  string
	version   string
	noCRC     bool
	mountPort int
}

func (c *connectFlags) add(f *pflag.FlagSet) {
	all := providers.Names()
	f.StringVar(&c.provider, "rdma-provider", all[0], "what carries RDMA: "+strings.Join(all, " or ")+" (RDMA devices)")
	f.BoolVar(&c.noCRC, "no-crc", false, "over iWARP in software, do not ask for CRCs (the server may)")
	f.IntVar(&c.mountPort, "mount-port", 0, "TCP port of the server's MOUNT service (default: ask the server, then its rpcbind)")
	f.StringVar(&c.flavor, "sec", "sys", "how to prove who calls: sys, krb5, krb5i or krb5p")
	f.StringVar(&c.keytab, "keytab", "", "with Kerberos: a keytab (default: the credential cache of KRB5CCNAME or krb5.conf, or /tmp/krb5cc_UID)")
	f.StringVar(&c.principal, "principal", "", "with --keytab: the principal of the key (default: the first)")
	f.StringVar(&c.server, "server-principal", "", "with Kerberos: the server's principal, such as nfs@server.example.org (default nfs@HOST)")
}

// addVersion adds the flag for the version of RPC-over-RDMA.
func (c *connectFlags) addVersion(f *pflag.FlagSet) {
	f.StringVar(&c.version, "rdma-version", string(client.RDMAVersion1), "version of RPC-over-RDMA: 1, 2, or newest, which is 2 if the server speaks it, else 1")
}

// rdmaVersion returns the version that the flag chooses. An error says that it does not fit the transport.
func (c *connectFlags) rdmaVersion(f *pflag.FlagSet, t client.Transport) (v client.RDMAVersion, err error) {
	switch v, err = client.ParseRDMAVersion(c.version); {
	case err != nil:
		return "", usageError{fmt.Errorf("--rdma-version: %w", err)}
	case t != client.RDMA && f.Changed("rdma-version"):
		return "", usageError{errors.New("--rdma-version is for RDMA: add --transport rdma, or leave it out")}
	}
	return v, nil
}

// open returns how the command's connections are made: the RDMA provider that they share, or nil if
// none of the transports needs it, and the client.Security.
func (c *connectFlags) open(transports ...client.Transport) (provider providers.Provider, security *client.Security, err error) {
	if slices.Contains(transports, client.RDMA) {
		var cfg providers.Config
		if c.noCRC {
			cfg.CRC = "off"
		}
		if provider, err = providers.Open(c.provider, cfg); err != nil {
			return nil, nil, usageError{fmt.Errorf("--rdma-provider %s: %w", c.provider, err)}
		}
	}
	security, err = c.security()
	return provider, security, err
}

// securityFlags are the flags of commands that can authenticate by Kerberos.
type securityFlags struct {
	flavor, keytab, principal, server string
}

// securityHelp is the help text for the flags of securityFlags.
const securityHelp = `The ticket comes from the credential cache (kinit), or
with --keytab from a key.`

// security returns the client.Security that the flags select, or nil for AUTH_SYS.
func (s *securityFlags) security() (*client.Security, error) {
	flavor, err := client.ParseFlavor(s.flavor)
	switch {
	case err != nil:
		return nil, usageError{fmt.Errorf("--sec: %w", err)}
	case flavor == client.Sys && (s.keytab != "" || s.principal != "" || s.server != ""):
		return nil, usageError{errors.New("--keytab, --principal and --server-principal belong to --sec krb5, krb5i or krb5p")}
	case flavor == client.Sys:
		return nil, nil
	case s.principal != "" && s.keytab == "":
		return nil, usageError{errors.New("--principal chooses a key of --keytab: a credential cache has one principal")}
	}
	return client.Kerberos{Flavor: flavor, Keytab: s.keytab, Principal: s.principal, Server: s.server}.Security()
}
