package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/client/probe"
)

// The command prints the result of the probe, which has the details, before it returns these
// errors.
var (
	errNotServed = errors.New("no NFS server was found where one was asked for")
	errNoContext = errors.New("an NFS server was found, but Kerberos failed with it")
	errCut       = errors.New("interrupted: the report has what was found until then")
)

func probeCommand() *cobra.Command {
	var (
		transport string
		asJSON    bool
		timeout   time.Duration
		connect   connectFlags
	)
	c := &cobra.Command{
		Use:   "probe HOST[:PORT]",
		Short: "Tell what a server speaks, over RDMA and TCP",
		Long: `Tell what a server speaks: parameters of RDMA and RPC-over-RDMA, RPC programs and
versions, exports and round-trip times, with a sentence on what is wrong, and the
commands that mount from this machine.

Without --transport both are tried, and the exit status is 0 where NFS is served
over one of them; with --transport, where it is over what was asked for. Without
a port, RDMA is tried on 20049 and TCP on 2049.

With --sec a context of RPCSEC_GSS is made as well, and the exit status is 0 only
where that succeeds. ` + securityHelp,
		Args: oneArgument("a server: HOST or HOST:PORT"),
		RunE: func(_ *cobra.Command, args []string) error {
			cfg := probe.Config{Timeout: timeout, MountPort: connect.mountPort}
			var err error
			if cfg.Host, cfg.Port, err = client.SplitHostPort(args[0]); err != nil {
				return usageError{err}
			}
			switch transport {
			case "", "both":
				cfg.Transports = []client.Transport{client.RDMA, client.TCP}
			default:
				t, err := client.ParseTransport(transport)
				if err != nil {
					return usageError{fmt.Errorf("--transport: %w, both", err)}
				}
				cfg.Transports = []client.Transport{t}
			}
			if cfg.Provider, cfg.Security, err = connect.open(cfg.Transports...); err != nil {
				return err
			}
			ctx, stop := untilSignal()
			defer stop()
			p := probe.Run(ctx, cfg)
			if asJSON {
				if err := printJSON(p); err != nil {
					return err
				}
			} else {
				p.Print(os.Stdout)
			}
			if ctx.Err() != nil {
				return errCut
			}
			if p.Serves(transport != "") {
				return nil
			}
			if cfg.Security != nil && p.Found(transport != "") {
				return errNoContext
			}
			return errNotServed
		},
	}
	f := c.Flags()
	f.StringVar(&transport, "transport", "", "tcp, rdma or both")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	durationVar(f, &timeout, "timeout", 5*time.Second, time.Millisecond, time.Hour, "how long each step may take")
	connect.add(f)
	return c
}

func printJSON(v any) error {
	e := json.NewEncoder(os.Stdout)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
