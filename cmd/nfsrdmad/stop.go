package main

import (
	"net/url"
	"os"

	"github.com/spf13/cobra"

	"github.com/nfsrdmad/nfsrdmad/server/admin"
)

func stopCommand() *cobra.Command {
	var flags askFlags
	c := &cobra.Command{
		Use:   "stop NAME",
		Short: "Stop an export of the running daemon, so that its file system can be unmounted",
		Long: `Stop an export of the running daemon, and wait until no call uses its file system
any more, so that it can be unmounted. Programs on clients get "Stale file handle",
and lose what they had open and locked there. Other exports are served as before.
Neither a reload nor a restart of the daemon serves the export again: 'nfsrdmad exports
start' does. If the stop cannot be recorded for the next start, because the disk of the
state directory is full for example, the command fails, and the export is stopped as
long as the daemon runs.`,
		Args: oneArgument("one export: a NAME of 'nfsrdmad exports'"),
		RunE: func(c *cobra.Command, args []string) error {
			return flags.ask("POST", "/exports/stop", url.Values{"name": args}, admin.PrintOne[admin.ExportStopped](os.Stdout))
		},
	}
	flags.add(c.Flags(), true)
	return c
}

func startCommand() *cobra.Command {
	var flags askFlags
	c := &cobra.Command{
		Use:   "start NAME",
		Short: "Serve an export of the running daemon again that was stopped",
		Long: `Serve an export again that 'nfsrdmad exports stop' has stopped, or try again to open
the directory of one that is not served. If the same file system is mounted again,
clients go on to use their mounts and handles.`,
		Args: oneArgument("one export: a NAME of 'nfsrdmad exports'"),
		RunE: func(c *cobra.Command, args []string) error {
			return flags.ask("POST", "/exports/start", url.Values{"name": args}, admin.PrintOne[admin.ExportStarted](os.Stdout))
		},
	}
	flags.add(c.Flags(), true)
	return c
}
