package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/nfsrdmad/nfsrdmad/server"
)

func serveCommand() *cobra.Command {
	var (
		configFile, stateDir, logLevel string
		exports, rdma, tcp             []string
		showMounts                     bool
	)
	c := &cobra.Command{
		Use:   "serve [--config FILE] [--export DIR[:/name][,option...]]...",
		Short: "Serve directories over NFS until SIGTERM",
		Long: `Serve directories over NFS, by RDMA (port 20049) and TCP (port 2049), until
SIGTERM or SIGINT; calls in progress are answered then.

What is given as flags replaces what the configuration file says. Without
--config, ` + server.DefaultConfigFile + ` is read where it exists and no
--export is given.

Export options, separated by commas: ro rw sync async root_squash no_root_squash
all_squash anonuid=N anongid=N clients=CIDR[;CIDR] secure insecure.
The default is rw,sync,root_squash,secure.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("%q is not understood: directories are given as --export %s", args[0], args[0])}
			}
			return nil
		},
		RunE: func(*cobra.Command, []string) error {
			cfg, err := baseConfig(configFile, len(exports) > 0)
			if err != nil {
				return err
			}
			if err := overlay(cfg, exports, rdma, tcp); err != nil {
				return err
			}
			if stateDir != "" {
				cfg.StateDir = stateDir
			}
			if logLevel != "" {
				if cfg.LogLevel, err = server.ParseLogLevel(logLevel); err != nil {
					return err
				}
			}
			return serve(cfg, showMounts)
		},
	}
	f := c.Flags()
	f.StringVar(&configFile, "config", "", "configuration file (TOML)")
	f.StringArrayVar(&exports, "export", nil, "directory to serve: DIR[:/name][,option...]; repeatable")
	f.StringArrayVar(&rdma, "rdma", nil, "address to serve RDMA on: ADDR:PORT, :PORT or none; repeatable (default :20049)")
	f.StringArrayVar(&tcp, "tcp", nil, "address to serve TCP on: ADDR:PORT, :PORT or none; repeatable (default :2049)")
	f.StringVar(&stateDir, "state-dir", "", "directory that keeps what outlives a restart (default "+server.DefaultStateDir+")")
	f.StringVar(&logLevel, "log-level", "", "debug, info, warn or error (default info)")
	f.BoolVar(&showMounts, "show-mounts", false, "print the commands that mount the first export from elsewhere")
	return c
}

// baseConfig is the file's configuration, or the defaults where none is asked for.
func baseConfig(file string, haveExports bool) (*server.Config, error) {
	if file != "" {
		return server.ReadConfig(file)
	}
	if !haveExports {
		cfg, err := server.ReadConfig(server.DefaultConfigFile)
		if !errors.Is(err, fs.ErrNotExist) {
			return cfg, err
		}
		return nil, usageError{fmt.Errorf("nothing to serve: add --export DIR, or write %s", server.DefaultConfigFile)}
	}
	return new(server.Config), nil
}

// overlay puts flags over the file.
func overlay(cfg *server.Config, exports, rdma, tcp []string) error {
	if len(exports) > 0 {
		cfg.Exports = nil
	}
	for _, s := range exports {
		e, err := server.ParseExport(s)
		if err != nil {
			return err
		}
		cfg.Exports = append(cfg.Exports, e)
	}
	for _, l := range []struct {
		flag string
		from []string
		to   *[]server.Listen
	}{{"--rdma", rdma, &cfg.RDMA}, {"--tcp", tcp, &cfg.TCP}} {
		if len(l.from) > 0 {
			*l.to = nil
		}
		for _, s := range l.from {
			var a server.Listen
			if err := a.UnmarshalText([]byte(s)); err != nil {
				return &server.ConfigError{File: l.flag, Err: err}
			}
			*l.to = append(*l.to, a)
		}
	}
	return nil
}

func serve(cfg *server.Config, showMounts bool) error {
	// Before New, so that a signal at any time ends in order.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	s, err := server.New(cfg)
	if err != nil {
		return err
	}
	if showMounts {
		for _, line := range s.MountCommands() {
			fmt.Fprintln(os.Stdout, line)
		}
	}
	return s.Serve(ctx)
}
