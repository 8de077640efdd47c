package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/client/bench"
)

// These errors mean that the user ended a measurement: during the preparation of the first, or later. Then what was measured
// has been printed.
var (
	errInterrupted = errors.New("the measurement was interrupted")
	errPartly      = fmt.Errorf("%w: the results are of what was measured until then", errInterrupted)
)

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
		host, port, export, err := client.SplitExport(arg)
		if err != nil {
			return nil, err
		}
		servers[i].Host, servers[i].Export = host, export
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
	if shown == nil {
		return errors.Join(interrupted(ctx, err, errInterrupted), picture.discard())
	}
	return errors.Join(interrupted(ctx, err, errPartly), output.show(shown, picture))
}

// interrupted returns an error with told in place of what a signal ended. If there are several errors, as of removing the
// files, the others stay.
func interrupted(ctx context.Context, err, told error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	all := []error{err}
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		all = slices.Clone(several.Unwrap())
	}
	for i, e := range all {
		if errors.Is(e, context.Cause(ctx)) || errors.Is(e, ctx.Err()) {
			all[i] = told
		}
	}
	return errors.Join(all...)
}

// A measured is a bench.Result or bench.Comparison.
type measured interface {
	Print(w io.Writer)
	WriteSVG(w io.Writer) error
}

// A picture is the file of --svg. It is written beside the file with that name, which stays as it is until the picture is
// whole. Without --svg there is no file.
type picture struct {
	file *os.File // or nil
	name string   // what the file is renamed to, or "" for a device or a pipe, which is written itself
}

// create makes the file for the picture before the measurement, so that a wrong name costs no time.
func (o *benchOutput) create() (*picture, error) {
	if o.svg == "" {
		return &picture{}, nil
	}
	var p picture
	var err error
	name := o.svg
	if real, err := filepath.EvalSymlinks(name); err == nil {
		name = real
	}
	if is, wrong := os.Stat(name); wrong == nil && !is.Mode().IsRegular() {
		p.file, err = os.OpenFile(name, os.O_WRONLY, 0)
	} else {
		p.name = name
		p.file, err = os.OpenFile(fmt.Sprintf("%s.%d.new", name, os.Getpid()), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	}
	if err != nil {
		return nil, usageError{fmt.Errorf("--svg: %w", err)}
	}
	return &p, nil
}

// write draws the result m, and gives the file its name.
func (p *picture) write(m measured) error {
	if p.file == nil {
		return nil
	}
	if err := m.WriteSVG(p.file); err != nil {
		return errors.Join(err, p.discard())
	}
	err := p.file.Close()
	if p.name == "" {
		return err
	}
	if err == nil {
		err = os.Rename(p.file.Name(), p.name)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(p.file.Name()))
	}
	return err
}

// discard removes the file that was to have the picture.
func (p *picture) discard() error {
	if p.file == nil {
		return nil
	}
	err := p.file.Close()
	if p.name != "" {
		err = errors.Join(err, os.Remove(p.file.Name()))
	}
	return err
}

func (o *benchOutput) show(m measured, p *picture) error {
	err := p.write(m)
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
