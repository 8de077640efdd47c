package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nfsrdmad/nfsrdmad/server"
	"github.com/nfsrdmad/nfsrdmad/server/config"
)

func serveCommand() *cobra.Command {
	var (
		configFile string
		flags      config.Flags
		showMounts bool
	)
	c := &cobra.Command{
		Use:   "serve [--config FILE] [--export DIR[:/name][,option...]]...",
		Short: "Serve directories over NFS until SIGTERM",
		Long: `Serve directories over NFS, by RDMA (port 20049) and TCP (port 2049), until
SIGTERM or SIGINT; calls in progress are answered then. A second one ends at once.

What is given as flags replaces what the configuration file says. Without
--config, ` + config.DefaultConfigFile + ` is read where it exists and no
--export is given.

Export options, separated by commas:
` + config.ExportOptionsHelp(),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("%q is not understood: directories are given as --export %s", args[0], args[0])}
			}
			return nil
		},
		RunE: func(*cobra.Command, []string) error {
			if os.Getenv("GOGC") == "" {
				debug.SetGCPercent(gcPercent)
			}
			server.SpareProcessor()
			return serve(func() (*config.Config, error) {
				cfg, err := baseConfig(configFile, flags.HaveExports())
				if err != nil {
					return nil, err
				}
				return cfg, cfg.Overlay(&flags)
			}, showMounts)
		},
	}
	configurationFlags(c.Flags(), &configFile, &flags)
	c.Flags().BoolVar(&showMounts, "show-mounts", false, "print the commands that mount the first export from elsewhere")
	return c
}

// gcPercent is the daemon's GOGC: the percentage by which the heap may exceed its live data. For
// data that peers make the daemon keep on the heap, mem.Ledger adds half of their size, which
// covers this excess. Payload is not on the heap.
const gcPercent = 40

// configurationFlags defines --config and the flags that replace settings of the configuration
// file.
func configurationFlags(f *pflag.FlagSet, configFile *string, flags *config.Flags) {
	f.StringVar(configFile, "config", "", "configuration file (TOML)")
	flags.Define(f)
}

// errNoConfig is the error for a command line that names neither an export nor a configuration
// file, if the default file does not exist.
var errNoConfig = usageError{errors.New("nothing to serve: add --export DIR, or write " + config.DefaultConfigFile)}

// baseConfig reads the configuration file with the given name. Without a name, it reads the default
// file or, if flags name exports, returns an empty configuration.
func baseConfig(file string, haveExports bool) (*config.Config, error) {
	switch {
	case file != "":
		return config.Read(file)
	case haveExports:
		return new(config.Config), nil
	}
	cfg, err := config.Read(config.DefaultConfigFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoConfig
	}
	return cfg, err
}

// serve runs the daemon. It calls read for the configuration, at the start and at each SIGHUP.
func serve(read func() (*config.Config, error), showMounts bool) error {
	cfg, err := read()
	if err != nil {
		return err
	}
	// handleSignals comes before Start, so that a signal during the start also shuts the daemon
	// down.
	ctx, signals := handleSignals(server.EndsWithin(cfg))
	s, err := server.Start(ctx, cfg)
	if errors.Is(err, context.Canceled) {
		return nil
	}
	if err != nil {
		return err
	}
	signals.onHangup(func() { s.Reload(read) })
	if showMounts {
		for _, line := range s.MountCommands() {
			fmt.Fprintln(os.Stdout, line)
		}
	}
	return s.Serve(ctx)
}
