// Command nfsrdmad is an NFS server that Linux clients mount over RDMA, with or
// without RDMA hardware. See the README and docs/.
//
// It has no logic of its own: each subcommand is a file that parses flags and
// calls the room that does the work. Exit status 2 means that what it was told
// is wrong, 1 that something failed, and 3 that a daemon ended without something
// that it had to leave behind.
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/nfsrdmad/nfsrdmad/server"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// version is set when the program is built.
var version = "development"

// A usageError is what the user can mend by calling differently.
type usageError struct{ error }

// The process's first thread runs the goroutine of main and no other. The kernel wakes
// that thread for a SIGTERM if it can, and no other one: while the first thread waited for a
// file system that hangs, the process would not hear that it is to end.
func init() { runtime.LockOSThread() }

func main() {
	// Before anything else, since it may execute the program anew (local.DropCapabilities).
	if err := local.DropCapabilities(); err != nil {
		fmt.Fprintln(os.Stderr, "nfsrdmad:", err)
	}
	root := &cobra.Command{
		Use:           "nfsrdmad",
		Short:         "An NFS server for RDMA and TCP",
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version,
		Args:          noArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; see '%s --help'", err, c.CommandPath())}
	})
	root.AddCommand(serveCommand(), versionCommand(), doctorCommand(), probeCommand(), benchCommand(), relayCommand())
	if err := root.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "nfsrdmad:", err)
		os.Exit(exitStatus(err))
	}
}

func exitStatus(err error) int {
	var usage usageError
	var unfinished *server.Unfinished
	if errors.As(err, &unfinished) {
		return exitUnfinished
	}
	var config *server.ConfigError
	if errors.As(err, &usage) || errors.As(err, &config) {
		return 2
	}
	return 1
}
