package main

import (
	"io"
	"os"

	"github.com/spf13/cobra"
)

func reportCommand() *cobra.Command {
	var flags askFlags
	c := &cobra.Command{
		Use:   "report",
		Short: "Print all that helps to find out what is wrong with the running daemon",
		Long: `Print what the running daemon knows of itself, for a report of a fault: version,
configuration, exports, clients, calls in progress, locks for which clients wait,
the last lines of the log, metrics, goroutines, and what 'nfsrdmad doctor' finds.
It has no keys, but names and addresses of clients and paths of files.`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return flags.ask("GET", "/report", nil, func(body io.Reader) error {
				_, err := io.Copy(os.Stdout, body)
				return err
			})
		},
	}
	flags.add(c.Flags(), false)
	return c
}
