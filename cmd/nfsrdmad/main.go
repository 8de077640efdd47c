// Command nfsrdmad is an NFS server that Linux clients mount over RDMA, with or without RDMA
// hardware. See the README and docs/.
//
// The command has no logic of its own: each subcommand is a file that parses flags and calls the
// package that does the work. Exit status 1 means a failure, 2 wrong arguments or a wrong
// configuration, and 3 that the daemon, or a measurement, ended before all its work had ended.
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nfsrdmad/nfsrdmad/server"
	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// version is the release. The linker sets it.
var version = "development"

// A usageError is an error in the arguments, which the user can correct.
type usageError struct{ error }

// The process's first thread runs the goroutine of main and no other. The kernel prefers to wake
// this thread for a SIGTERM. If this thread were waiting for a file system that hangs, the process
// would not notice the signal.
func init() { runtime.LockOSThread() }

func main() {
	// DropCapabilities comes first, because it may start the program from the beginning again
	// (execve).
	if err := local.DropCapabilities(); err != nil {
		printError(err)
	}
	root := rootCommand()
	err := unknownCommand(root, os.Args[1:])
	if err == nil {
		err = root.Execute()
	}
	if err != nil {
		printError(err)
		os.Exit(exitStatus(err))
	}
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "nfsrdmad",
		Short:         "An NFS server for RDMA and TCP",
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version,
		Args:          noArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetFlagErrorFunc(flagError)
	server.Version = version
	root.AddCommand(serveCommand(), statusCommand(), clientsCommand(), opensCommand(), locksCommand(), callsCommand(), traceCommand(), topCommand(), exportsCommand(),
		evictCommand(), releaseCommand(), reloadCommand(), graceCommand(), logLevelCommand(), reportCommand(), stateCommand(), versionCommand(), doctorCommand(), probeCommand(), benchCommand(), relayCommand(), manPagesCommand())
	completeValues(root)
	return root
}

// printError prints an error, or each of several that are joined.
func printError(err error) {
	for line := range strings.SplitSeq(err.Error(), "\n") {
		fmt.Fprintln(os.Stderr, "nfsrdmad:", plain(line))
	}
}

// plain returns an error text without the names of packages that begin its parts, as in "bench: connecting to ...:
// client: not an address": they say nothing to users.
func plain(text string) string {
	parts := strings.Split(text, ": ")
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return slices.Contains(packageNames, part) }), ": ")
}

// packageNames are names with which packages of this module begin errors that commands show. They lack tcp, rdma and
// rpcbind, which are also keys of the configuration.
var packageNames = []string{"bench", "client", "gss", "iwarp", "mem", "rdmacm", "relay", "rpc", "verbs", "vfs", "xdr"}

func exitStatus(err error) int {
	if _, unfinished := errors.AsType[*server.Unfinished](err); unfinished {
		return exitUnfinished
	}
	if errors.Is(err, errInterrupted) {
		return exitUnfinished
	}
	_, usage := errors.AsType[usageError](err)
	if _, wrong := errors.AsType[*config.Error](err); usage || wrong {
		return 2
	}
	return 1
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArgs,
		Run: func(*cobra.Command, []string) {
			fmt.Fprintf(os.Stdout, "nfsrdmad %s (%s %s/%s)\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
		},
	}
}
