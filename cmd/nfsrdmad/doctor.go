package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/nfsrdmad/nfsrdmad/server"
	"github.com/nfsrdmad/nfsrdmad/server/config"
)

func doctorCommand() *cobra.Command {
	var flags configFlags
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check whether the server can run on this machine",
		Long: `Check whether the server can run on this machine: a line for each thing. The
flags are those of serve, for a server that is to have other ports or another state
directory. Without --config, ` + config.DefaultConfigFile + ` is read where it exists.

The exit status is 1 if something is missing without which the server cannot start,
or cannot serve an export as configured: the lines marked 'no'.`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			cfg, err := flags.read(false)
			if err != nil {
				return err
			}
			missing, err := server.Doctor(os.Stdout, cfg)
			if err != nil {
				return err
			}
			if missing > 0 {
				return errors.New("something that a server needs is missing: see the lines marked 'no'")
			}
			return nil
		},
	}
	flags.add(c.Flags())
	return c
}
