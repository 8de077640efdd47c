package main

import (
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nfsrdmad/nfsrdmad/server/admin"
)

// listCommand returns a command that asks the daemon for something and prints it.
func listCommand(name, short, long string, show func(io.Reader) error, choices ...string) *cobra.Command {
	var flags askFlags
	given := make(choiceFlags)
	c := &cobra.Command{
		Use: name, Short: short, Long: long, Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			with, err := given.values(c.Flags())
			if err != nil {
				return err
			}
			return flags.ask("GET", "/"+name, with, show)
		},
	}
	for _, choice := range choices {
		given.add(c.Flags(), choice, choiceHelp[choice])
	}
	flags.add(c.Flags(), true)
	return c
}

// choiceFlags are the flags that choose some of what the daemon has, by name: client, export, file.
type choiceFlags map[string]*string

func (f choiceFlags) add(set *pflag.FlagSet, name, help string) { f[name] = set.String(name, "", help) }

// values returns the flags that the user gave, for the request. A flag that is given empty, as by a variable of a
// script that is not set, chooses nothing: without it the command would be about more than the user meant.
func (f choiceFlags) values(set *pflag.FlagSet) (url.Values, error) {
	with := url.Values{}
	for _, name := range slices.Sorted(maps.Keys(f)) {
		value := *f[name]
		switch {
		case !set.Changed(name):
			continue
		case value == "":
			return nil, usageError{fmt.Errorf("--%s is empty: give it a value, or leave the flag out", name)}
		case name == "file":
			value = fileNamed(value)
		}
		with.Set(name, value)
	}
	return with, nil
}

var choiceHelp = map[string]string{
	"client": "only those of this client: an ID of 'nfsrdmad clients', or an address (of IPv6 clients, all in its /64)",
	"export": "only those by the export with this name",
	"file":   "only those of this file: its path on the server, or the digits that the lists show",
}

// fileNamed returns the value of --file as the daemon takes it: digits and quoted paths as they are, paths absolute.
func fileNamed(value string) string {
	if _, err := hex.DecodeString(value); err == nil || strings.HasPrefix(value, `"`) {
		return value
	}
	if path, err := filepath.Abs(value); err == nil {
		return path
	}
	return value
}

func statusCommand() *cobra.Command {
	return listCommand("status", "Show the state of the running daemon", "", admin.PrintOne[admin.Status](os.Stdout))
}

func clientsCommand() *cobra.Command {
	return listCommand("clients", "List the clients, with what they hold",
		"List the clients of NFSv4, the hosts that lock files by NFSv3 (nlm), and the addresses\nthat use NFSv3 (3) or are only connected (none).",
		admin.PrintList[admin.Client](os.Stdout))
}

func opensCommand() *cobra.Command {
	return listCommand("opens", "List the files that clients have open", "", admin.PrintList[admin.Open](os.Stdout), "client", "export", "file")
}

func locksCommand() *cobra.Command {
	return listCommand("locks", "List the locks that clients have and those for which they wait", "", admin.PrintList[admin.Lock](os.Stdout), "client", "export", "file")
}

func callsCommand() *cobra.Command {
	return listCommand("calls", "List the calls in progress, and what they wait for",
		"List the calls that a thread executes or that wait, with what each waits for: disk (a\nthread executes it in a file system), thread, user (the look-up of the caller's groups\nor account), state (of clients), turn (an earlier request of the same owner), or memory.\nThe list also has calls that were answered, if their clients have to ask again and do so.\nThese wait for the end of the grace period (grace), for a lock (lock of ADDRESS), for a\nfile that another client has open (share), or for the client itself, which does not\nanswer the daemon's own call (callback).",
		admin.PrintList[admin.Call](os.Stdout))
}

func exportsCommand() *cobra.Command {
	c := listCommand("exports", "List the exports of the running daemon with the options in force, stop and start one, or convert /etc/exports", "", admin.PrintList[admin.Export](os.Stdout))
	c.AddCommand(convertCommand(), stopCommand(), startCommand())
	return c
}
