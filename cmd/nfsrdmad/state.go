package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/nfsrdmad/nfsrdmad/server/statedir"
)

func stateCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "state", Short: "Show, check or back up a state directory", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(stateShowCommand(), stateCheckCommand(), stateBackupCommand())
	return c
}

func stateShowCommand() *cobra.Command {
	return stateLookCommand("show", "Show what is in a state directory", `Show what is in a state directory, or in a backup of one: its files, the clients that
may reclaim what they hold after a restart, and the exports that it remembers and that
are stopped. A daemon may use the directory meanwhile. Without DIR, it is the configured one.`,
		func(c *statedir.Contents) error { c.Print(os.Stdout); return nil })
}

func stateCheckCommand() *cobra.Command {
	return stateLookCommand("check", "Check the files of a state directory", `Check a state directory, or a backup of one, as the daemon does at its start: the
checksums, formats and sizes of its files, and the modes of the directory, its key and its
file of clients. Owners are checked for the user who runs the command or, if that is root,
for the owner of the directory. Print what is wrong and what to do about it, and exit with
status 1 if anything is. Nothing is changed. Without DIR, it is the configured one.`,
		func(c *statedir.Contents) error { c.PrintProblems(os.Stdout); return nil })
}

// stateLookCommand returns a command that looks at a state directory. It fails if there is a problem and the command is
// check.
func stateLookCommand(name, short, long string, show func(*statedir.Contents) error) *cobra.Command {
	var flags askFlags
	c := &cobra.Command{
		Use: name + " [DIR]", Short: short, Long: long, Args: atMostOne("one state directory"),
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := flags.directory(args)
			if err != nil {
				return err
			}
			is, err := statedir.Look(dir)
			if err != nil {
				return fmt.Errorf("the state directory cannot be read: %w", err)
			}
			if flags.json {
				err = json.NewEncoder(os.Stdout).Encode(is)
			} else {
				err = show(is)
			}
			if n := len(is.Problems()); err == nil && name == "check" && n > 0 {
				return fmt.Errorf("%s: %d of its files need attention", dir, n)
			}
			return err
		},
	}
	c.Flags().StringVar(&flags.file, "config", "", "the daemon's configuration file")
	c.Flags().BoolVar(&flags.json, "json", false, "print JSON")
	return c
}

func stateBackupCommand() *cobra.Command {
	var flags askFlags
	c := &cobra.Command{
		Use:   "backup DIR",
		Short: "Make a backup of the state directory, also while the daemon runs",
		Long: `Make the directory DIR, which must not exist, as a backup of the state directory: a
daemon that is started with it, or with a copy of it, has the same clients and the same
key of file handles. If clients were served since, start it without clients.db. While a
daemon runs, it makes the copy itself, without the index of file handles: a daemon that
needs the index (see nfsrdmad doctor) has other handles then, and clients have to mount
anew. Keep the backup as secret as the directory: it has the key that signs file handles.`,
		Args: oneArgument("one directory, which does not exist yet"),
		RunE: func(_ *cobra.Command, args []string) error { return flags.backup(args[0]) },
	}
	flags.add(c.Flags(), false)
	return c
}

// directory returns the state directory in args, or else the one that the flags name.
func (a *askFlags) directory(args []string) (string, error) {
	if len(args) > 0 {
		return args[0], nil
	}
	cfg, err := a.config()
	if err != nil {
		return "", err
	}
	return cfg.StateDir, nil
}

// backup makes the directory to. If a socket is named, or a daemon uses the state directory, the daemon makes the copy.
func (a *askFlags) backup(to string) error {
	if a.socket == "" {
		dir, err := a.directory(nil)
		if err != nil {
			return err
		}
		if err := statedir.Copy(dir, to); !errors.Is(err, statedir.ErrUsed) {
			return err
		}
	}
	return a.ask("GET", "/state/backup", nil, func(body io.Reader) error { return statedir.Read(body, to) })
}
