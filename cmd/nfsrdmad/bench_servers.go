package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/client/bench"
)

// errInterrupted means that the user ended a measurement. What was measured until then has been printed.
var errInterrupted = errors.New("the measurement was interrupted: the results are of what was measured until then")

// someArguments requires at least one argument.
func someArguments(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usageError{fmt.Errorf("'%s' takes %s; see '%s --help'", c.CommandPath(), what, c.CommandPath())}
		}
		return nil
	}
}

// benchOutput are the flags of bench about its output, and about how often it measures several servers.
type benchOutput struct {
	json   bool
	svg    string
	rounds int
}

func (o *benchOutput) add(f *pflag.FlagSet) {
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.StringVar(&o.svg, "svg", "", "also write a picture to this file")
	f.IntVar(&o.rounds, "rounds", 3, "how often to measure each of several servers")
}

// benchServers returns the configuration for each HOST:/export or HOST:PORT:/export.
func benchServers(cfg bench.Config, args []string) ([]bench.Config, error) {
	servers := make([]bench.Config, len(args))
	for i, arg := range args {
		servers[i] = cfg
		host, export, found := strings.Cut(arg, ":/")
		if !found {
			return nil, fmt.Errorf("%w: %q is not HOST:/export", client.ErrAddress, arg)
		}
		name, port, err := client.SplitHostPort(host)
		if err != nil {
			return nil, err
		}
		servers[i].Host, servers[i].Export = name, "/"+export
		if port != 0 {
			servers[i].Port = port
		}
	}
	return servers, nil
}

// runBench measures the servers, and prints and draws the results.
func runBench(servers []bench.Config, output benchOutput) error {
	if output.rounds < 1 || output.rounds > 1000 {
		return usageError{errors.New("--rounds is from 1 to 1000")}
	}
	picture, err := output.create()
	if err != nil {
		return err
	}
	ctx, stop := untilSignal()
	defer stop()
	status := onTerminal(os.Stderr)
	for i := range servers {
		servers[i].Progress = status.progress()
	}
	var shown measured
	if len(servers) == 1 {
		m, e := bench.Run(ctx, servers[0])
		if err = e; m != nil {
			shown = m
		}
	} else {
		m, e := bench.Compare(ctx, servers, output.rounds, func(round, i int) {
			status.begin(fmt.Sprintf("round %d of %d, %s", round+1, output.rounds, servers[i].Host))
		})
		if err = e; m != nil {
			shown = m
		}
	}
	status.clear()
	if shown != nil {
		err = errors.Join(interrupted(ctx, err), output.show(shown, picture))
	}
	return errors.Join(err, picture.Close())
}

// interrupted returns errInterrupted in place of the error of a measurement that a signal ended.
func interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return errInterrupted
	}
	return err
}

// A measured is a bench.Result or bench.Comparison.
type measured interface {
	Print(w io.Writer)
	WriteSVG(w io.Writer) error
}

// create makes the file for the picture before the measurement, so that a wrong name costs no time. Without --svg it
// returns a writer that discards.
func (o *benchOutput) create() (io.WriteCloser, error) {
	if o.svg == "" {
		return discarding{io.Discard}, nil
	}
	f, err := os.Create(o.svg)
	if err != nil {
		return nil, usageError{fmt.Errorf("--svg: %w", err)}
	}
	return f, nil
}

type discarding struct{ io.Writer }

func (discarding) Close() error { return nil }

func (o *benchOutput) show(m measured, picture io.Writer) error {
	err := m.WriteSVG(picture)
	if err != nil {
		err = fmt.Errorf("writing the picture to %s: %w", o.svg, err)
	}
	if o.json {
		return errors.Join(printJSON(m), err)
	}
	m.Print(os.Stdout)
	return err
}

// A status is the line of a terminal that shows the progress of a measurement. Elsewhere it shows nothing.
type status struct {
	to     io.Writer // nil without a terminal
	prefix string
}

func onTerminal(f *os.File) *status {
	if _, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err != nil {
		return &status{}
	}
	return &status{to: f}
}

func (s *status) begin(what string) {
	s.prefix = what + "  "
}

func (s *status) clear() {
	if s.to != nil {
		fmt.Fprint(s.to, "\r\x1b[K")
	}
}

// progress returns the function for bench.Config.Progress of one server, or nil.
func (s *status) progress() func(bench.Progress) {
	if s.to == nil {
		return nil
	}
	var last bench.Progress
	return func(p bench.Progress) {
		if p.Elapsed < last.Elapsed { // the next round
			last = bench.Progress{}
		}
		span := max(p.Elapsed-last.Elapsed, time.Microsecond).Seconds()
		fmt.Fprintf(s.to, "\r%s%4.0f s  %10.0f op/s  %12s/s \x1b[K", s.prefix, p.Elapsed.Seconds(),
			float64(p.Operations-last.Operations)/span, bench.FormatBytes(float64(p.Bytes-last.Bytes)/span))
		last = p
	}
}
