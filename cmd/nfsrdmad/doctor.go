package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/nfsrdmad/nfsrdmad/server"
)

func doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Say what this machine lets the server do, and why not",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			if server.Doctor(os.Stdout) > 0 {
				return errors.New("something that a server needs is missing: see the lines marked 'no'")
			}
			return nil
		},
	}
}
