package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/url"
	"os"

	"github.com/spf13/pflag"

	"github.com/nfsrdmad/nfsrdmad/server/admin"
	"github.com/nfsrdmad/nfsrdmad/server/config"
)

// askFlags are the flags of the commands that ask a running daemon.
type askFlags struct {
	socket, file, stateDir string
	json                   bool
}

// add defines the flags. --json is for commands whose answer has that form.
func (a *askFlags) add(f *pflag.FlagSet, answersJSON bool) {
	f.StringVar(&a.socket, "socket", "", "the daemon's admin_socket (default: as its configuration says)")
	f.StringVar(&a.file, "config", "", "the daemon's configuration file (default "+config.DefaultConfigFile+", if it is there)")
	f.StringVar(&a.stateDir, "state-dir", "", "the daemon's state directory, if it was started with this flag")
	if answersJSON {
		f.BoolVar(&a.json, "json", false, "print JSON")
	}
}

// caller returns the caller of the daemon that the flags name.
func (a *askFlags) caller() (*admin.Caller, error) {
	if a.socket != "" {
		return admin.NewCaller(a.socket), nil
	}
	cfg, err := a.config()
	if err != nil {
		return nil, err
	}
	if cfg.AdminPath() == "" {
		return nil, usageError{errors.New("the configuration says admin_socket = \"none\": the daemon answers no commands")}
	}
	return admin.NewCaller(cfg.AdminPath()), nil
}

// config returns the configuration of the daemon that the flags name. If the file has mistakes, the result has only the
// places of the state directory and the socket: a daemon that runs serves on, and answers.
func (a *askFlags) config() (*config.Config, error) {
	var flags configFlags
	flags.add(pflag.NewFlagSet("", pflag.ContinueOnError)) // none is set
	flags.file = a.file
	cfg, err := flags.read(false)
	if err != nil {
		places, sure := config.ReadPlaces(cmp.Or(a.file, config.DefaultConfigFile))
		if !sure {
			return nil, err
		}
		cfg = places
	}
	switch {
	case a.stateDir != "":
		cfg.StateDir = a.stateDir
	case cfg.StateDir == "":
		cfg.StateDir = config.DefaultStateDir
	}
	return cfg, nil
}

// ask sends the daemon a request, such as GET for /clients, with parameters, and passes the answer to show. With
// --json it prints the answer as it is.
func (a *askFlags) ask(method, path string, with url.Values, show func(io.Reader) error) error {
	from, err := a.caller()
	if err != nil {
		return err
	}
	ctx, stop := untilSignal()
	defer stop()
	body, err := from.Ask(ctx, method, path, with)
	if err != nil {
		return orEnded(ctx, err)
	}
	defer body.Close()
	if a.json {
		_, err = io.Copy(os.Stdout, body)
		return orEnded(ctx, err)
	}
	return orEnded(ctx, show(body))
}

// errEnded means that the user ended the command.
var errEnded = errors.New("ended by a signal")

// orEnded returns err, or errEnded if the user ended the command.
func orEnded(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return errEnded
	}
	return err
}
