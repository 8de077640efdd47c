package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nfsrdmad/nfsrdmad/server"
	"github.com/nfsrdmad/nfsrdmad/server/config"
)

func serveCommand() *cobra.Command {
	var (
		flags             configFlags
		showMounts, check bool
	)
	c := &cobra.Command{
		Use:   "serve [--config FILE] [--export DIR[:/name][,option...]]...",
		Short: "Serve directories over NFS until SIGTERM",
		Long: `Serve directories over NFS, by RDMA (port 20049) and TCP (port 2049), until
SIGTERM or SIGINT. Then calls in progress are answered. A second signal stops at once.

Flags override the configuration file. Without --config, the file is
` + config.DefaultConfigFile + `, if it exists and neither --export nor --exports is given.

With --check, nothing is served: all errors of the configuration are shown, what
this machine lacks, and each export with its options and clients. A daemon that
runs is not disturbed. The exit status is 0 if a daemon could serve all exports,
1 if this machine prevents it, and 2 if the configuration is wrong.

Export options, separated by commas:
` + config.ExportOptionsHelp(),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("%q is not understood: directories are given as --export %s", args[0], args[0])}
			}
			return nil
		},
		RunE: func(*cobra.Command, []string) error {
			if check {
				return checkServing(&flags)
			}
			if os.Getenv("GOGC") == "" {
				debug.SetGCPercent(gcPercent)
			}
			server.SpareProcessor()
			return serve(func() (*config.Config, error) { return flags.read(true) }, showMounts)
		},
	}
	flags.add(c.Flags())
	c.Flags().BoolVar(&showMounts, "show-mounts", false, "print the commands that mount the first export from elsewhere")
	c.Flags().BoolVar(&check, "check", false, "only check the configuration and the machine, and show what would be served")
	return c
}

// checkServing checks whether a daemon with these flags could serve.
func checkServing(flags *configFlags) error {
	cfg, err := flags.read(true)
	if err != nil {
		return err
	}
	missing, err := server.Check(os.Stdout, cfg)
	if err == nil && missing > 0 {
		err = errors.New("a daemon with this configuration cannot serve all of it here: see the lines marked 'no'")
	}
	return err
}

// gcPercent is the daemon's GOGC: the percentage by which the heap may exceed its live data. For
// data that peers make the daemon keep on the heap, mem.Ledger adds half of their size, which
// covers this excess. Payload is not on the heap.
const gcPercent = 40

// configFlags are --config and the flags that replace settings of the configuration file.
type configFlags struct {
	config.Flags
	file string
}

func (f *configFlags) add(set *pflag.FlagSet) {
	set.StringVar(&f.file, "config", "", "configuration file (TOML)")
	f.Define(set)
}

// read reads the configuration file, and applies the flags over it. Without a name of a file, it
// reads the default file, unless flags name exports. If needed is false, the default file may be
// missing.
func (f *configFlags) read(needed bool) (*config.Config, error) {
	file := f.file
	if file == "" && !f.HaveExports() {
		file = config.DefaultConfigFile
	}
	cfg, err := config.ReadWith(file, &f.Flags)
	if err == nil {
		for _, n := range cfg.Notes() {
			fmt.Fprintln(os.Stderr, "nfsrdmad:", n.Text)
		}
	}
	switch {
	case f.file != "" || file == "" || !errors.Is(err, fs.ErrNotExist):
		return cfg, err
	case needed:
		return nil, usageError{errors.New("nothing to serve: add --export DIR, or write " + config.DefaultConfigFile)}
	}
	return config.ReadWith("", &f.Flags)
}

// serve runs the daemon. It calls read for the configuration, at the start and at each SIGHUP.
func serve(read func() (*config.Config, error), showMounts bool) error {
	cfg, err := read()
	if err != nil {
		return err
	}
	// handleSignals comes before Start, so that a signal during the start also shuts the daemon
	// down. Until the daemon serves, SIGHUP does nothing.
	var serving atomic.Pointer[server.Server]
	within := func() time.Duration {
		if s := serving.Load(); s != nil {
			return s.EndsWithin()
		}
		return server.EndsWithin(cfg)
	}
	ctx := handleSignals(within, func() {
		if s := serving.Load(); s != nil {
			s.Reload(read)
		}
	})
	s, err := server.Start(ctx, cfg)
	if errors.Is(err, context.Canceled) {
		return nil
	}
	if err != nil {
		return err
	}
	s.OnReload(read)
	serving.Store(s)
	if showMounts {
		for _, line := range s.MountCommands() {
			fmt.Fprintln(os.Stdout, line)
		}
	}
	return s.Serve(ctx)
}
