package main

import (
	"errors"
	"net/url"
	"os"

	"github.com/spf13/cobra"

	"github.com/nfsrdmad/nfsrdmad/server/admin"
)

// Commands that make the running daemon do something.

func evictCommand() *cobra.Command {
	var flags askFlags
	c := &cobra.Command{
		Use:   "evict CLIENT",
		Short: "Remove a client of the running daemon, with all that it has open and locked",
		Long: `Remove a client of NFSv4, or a host that locks files by NFSv3, with all that it has
open and locked. CLIENT is an ID of 'nfsrdmad clients', or an address or an IPv6
network (/64): then all clients there. Programs on the client get I/O errors for the files that they had
open. The client may come again: to keep it away, change the option clients= of the
exports first, and reload.`,
		Args: oneArgument("one client: an ID of 'nfsrdmad clients', or an address"),
		RunE: func(c *cobra.Command, args []string) error {
			return flags.ask("POST", "/evict", url.Values{"client": args}, admin.PrintOne[admin.Taken](os.Stdout))
		},
	}
	flags.add(c.Flags(), true)
	return c
}

func releaseCommand() *cobra.Command {
	var flags askFlags
	of := make(choiceFlags)
	c := &cobra.Command{
		Use:   "release [--client CLIENT] [--export NAME] [--file FILE]",
		Short: "Take open files and locks from clients of the running daemon",
		Long: `Take the open files and locks that the flags choose. If there are several flags,
all of them have to be true of what is taken. The clients stay, and are told:
programs there get I/O errors for these files. If the daemon restarts before a
client knows, the client cannot get back what else it holds. Hosts that lock by NFSv3
cannot be told: after a restart of the daemon they lose all their locks, until they
restart themselves or have held nothing for an hour.`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			with, err := of.values(c.Flags())
			if err != nil {
				return err
			}
			if len(with) == 0 {
				return usageError{errors.New("say what to take: --client, --export or --file")}
			}
			return flags.ask("POST", "/release", with, admin.PrintOne[admin.Taken](os.Stdout))
		},
	}
	of.add(c.Flags(), "client", "what this client has: an ID of 'nfsrdmad clients', an address, or an IPv6 network (/64)")
	of.add(c.Flags(), "export", "what clients have by the export with this name")
	of.add(c.Flags(), "file", "what clients have in this file: its path on the server, or the digits that 'nfsrdmad opens' shows")
	flags.add(c.Flags(), true)
	return c
}

func reloadCommand() *cobra.Command {
	var flags askFlags
	c := &cobra.Command{
		Use:   "reload",
		Short: "Make the running daemon read its configuration again, and say whether it did",
		Long: `Make the running daemon read its configuration again, as SIGHUP does, and wait
until it has. If the configuration is wrong, print why, and exit with status 1: the
daemon then serves as before.`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return flags.ask("POST", "/reload", nil, admin.PrintOne[admin.Reloaded](os.Stdout))
		},
	}
	flags.add(c.Flags(), true)
	return c
}

func graceCommand() *cobra.Command {
	var flags askFlags
	grace := &cobra.Command{Use: "grace", Short: "End the grace period of the running daemon", Args: noArgs, RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	end := &cobra.Command{
		Use:   "end",
		Short: "End the grace period of the running daemon now",
		Long: `End the grace period now. Clients that have not reclaimed what they held before the
restart lose it: programs there get I/O errors. 'nfsrdmad status' says whether there
is a grace period.`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return flags.ask("POST", "/grace/end", nil, admin.PrintOne[admin.Grace](os.Stdout))
		},
	}
	flags.add(end.Flags(), true)
	grace.AddCommand(end)
	return grace
}

func logLevelCommand() *cobra.Command {
	var flags askFlags
	c := &cobra.Command{
		Use:   "log-level [debug|info|warn|error]",
		Short: "Show or set the level of the running daemon's log",
		Long: `Show the level of the running daemon's log, or set it until the daemon ends, or until
a reload finds that the key log_level has changed in the configuration.`,
		Args: atMostOne("one level: debug, info, warn or error,"),
		RunE: func(c *cobra.Command, args []string) error {
			method, with := "GET", url.Values{}
			if len(args) > 0 {
				method = "POST"
				with.Set("level", args[0])
			}
			return flags.ask(method, "/log-level", with, admin.PrintOne[admin.Level](os.Stdout))
		},
	}
	flags.add(c.Flags(), true)
	return c
}
