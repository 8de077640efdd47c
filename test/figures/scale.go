package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
	"github.com/nfsrdmad/nfsrdmad/transport/tcp"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// This file measures the cost of a call for a server that has 1, 10, 100 or 1,000 connections, on
// 1, 2 or more processors. The server is a separate process, so that its processor time is measured
// apart from the client's.

// scaleServer is the argument with which this program runs as the server of these measurements. A
// second argument is the prefix of the files for its profiles.
const scaleServer = "scale-server"

// underWay is the number of calls in progress at a time, over all connections together, however many
// there are. The measurements with one call on each connection are the exception.
const underWay = 100

// serveScale runs the server. It prints its addresses and the handle of the root. For each line
// that it reads, it prints its processor time in nanoseconds. If waits is not empty, it writes
// profiles of its waits to files whose names begin with waits.
func serveScale(in io.Reader, out io.Writer, waits string) error {
	if waits != "" {
		runtime.SetMutexProfileFraction(1)
		runtime.SetBlockProfileRate(1)
	}
	s, err := newStage()
	if err != nil {
		return err
	}
	defer s.close()
	v, err := s.serve()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s %s %x\n", v.tcp, v.rdma, v.root.Data)
	for lines := bufio.NewScanner(in); lines.Scan(); {
		fmt.Fprintln(out, processorTime().Nanoseconds())
	}
	if waits == "" {
		return nil
	}
	for _, name := range []string{"mutex", "block"} {
		f, err := os.Create(waits + "." + name)
		if err != nil {
			return err
		}
		if err := errors.Join(pprof.Lookup(name).WriteTo(f, 0), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// A scaled is a server process started with scaleServer, and the connections to it.
type scaled struct {
	process  *exec.Cmd
	ask      io.WriteCloser
	answers  *bufio.Scanner
	tcp      string
	rdma     netip.AddrPort
	file     wire.FileHandle3
	cred     rpc.AuthBytes
	device   *iwarp.Provider
	overTCP  []rpc.Caller
	overRDMA []rpc.Caller
	ends     []func()
}

func startScaled(procs int, waits string) (*scaled, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	d := &scaled{process: exec.Command(self, scaleServer, waits)}
	d.process.Stderr = os.Stderr
	d.process.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", procs))
	if d.ask, err = d.process.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := d.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	d.answers = bufio.NewScanner(out)
	if d.device, err = iwarp.New(iwarp.Config{CRC: iwarp.CRCOff}); err != nil {
		return nil, err
	}
	if err := d.process.Start(); err != nil {
		return nil, err
	}
	if err := d.begin(); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

// begin reads the server's addresses, and creates the file that the calls read.
func (d *scaled) begin() error {
	line, err := d.answer()
	if err != nil {
		return err
	}
	var rdma string
	var root []byte
	if _, err := fmt.Sscanf(line, "%s %s %x", &d.tcp, &rdma, &root); err != nil {
		return fmt.Errorf("the server says %q: %w", line, err)
	}
	if d.rdma, err = netip.ParseAddrPort(rdma); err != nil {
		return err
	}
	s, err := newStage()
	if err != nil {
		return err
	}
	d.cred = s.cred
	if err := d.connect(1); err != nil {
		return err
	}
	if d.file, err = s.create(d.overTCP[0], wire.FileHandle3{Data: root}); err != nil {
		return err
	}
	return s.newCalls(d.overTCP[0], underWay).write(d.file, smallSize)(underWay)
}

func (d *scaled) answer() (string, error) {
	if !d.answers.Scan() {
		return "", errors.Join(errors.New("the server ended"), d.answers.Err())
	}
	return d.answers.Text(), nil
}

func (d *scaled) close() error {
	for _, end := range d.ends {
		end()
	}
	d.ask.Close()
	return d.process.Wait()
}

// connect makes connections until there are n over each transport.
func (d *scaled) connect(n int) error {
	for len(d.overTCP) < n {
		c, err := tcp.Dial(context.Background(), d.tcp, tcp.DialConfig{})
		if err != nil {
			return err
		}
		d.ends = append(d.ends, func() { c.Close() })
		d.overTCP = append(d.overTCP, c)
	}
	for len(d.overRDMA) < n {
		c, err := rdma.Dial(context.Background(), d.device, d.rdma, rdma.DialConfig{})
		if err != nil {
			return err
		}
		d.ends = append(d.ends, func() { c.Close() })
		d.overRDMA = append(d.overRDMA, c)
	}
	return nil
}

// used returns the processor time that the server has used.
func (d *scaled) used() (time.Duration, error) {
	if _, err := fmt.Fprintln(d.ask); err != nil {
		return 0, err
	}
	line, err := d.answer()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(line, 10, 64)
	return time.Duration(n), err
}

// rotating makes calls over many connections, a fixed number at a time: when a call ends, it
// starts the next call on the next connection.
type rotating struct {
	conns []rpc.Caller
	all   []*rpc.Exchange
	at    []int // index of each exchange's connection
	turns
}

// over returns a function that makes calls of procedure p over the connections conns. The
// parameter n of over is the largest number of these calls under way at a time.
func (d *scaled) over(conns []rpc.Caller, n int, p wire.Procedure) func(n int) error {
	r := &rotating{conns: conns, turns: newTurns()}
	row := &nfs.Binding3.Procedures[p]
	_, sinks := pieces(n, smallSize)
	for i := range n {
		x := &rpc.Exchange{
			Program: wire.Program, Version: wire.Version, Procedure: uint32(p), Cred: d.cred, Binding: row, MaxResults: row.MaxResults,
		}
		at := uint64(i % underWay * smallSize)
		switch p {
		case wire.ProcRead:
			x.MaxArgs, x.Sinks = wire.Read3ArgsMaxSize, [][]byte{sinks[i]}
			x.Args = func(w *xdr.Writer) {
				(&wire.Read3Args{FileHandle: d.file, Offset: at, Count: smallSize}).Encode(w)
			}
		case wire.ProcWrite:
			x.MaxArgs = wire.Write3ArgsMaxReducedSize
			x.Args = func(w *xdr.Writer) {
				(&wire.Write3Args{FileHandle: d.file, Offset: at, Count: smallSize, Data: xdr.Eligible{Data: sinks[i]}}).Encode(w)
			}
		default:
			x.MaxArgs = wire.Getattr3ArgsMaxSize
			x.Args = func(w *xdr.Writer) { (&wire.Getattr3Args{Object: d.file}).Encode(w) }
		}
		r.all, r.at = append(r.all, x), append(r.at, i%len(conns))
		x.Done = func(x *rpc.Exchange) {
			err := x.Err
			if err == nil {
				if s := wire.NFSStat3(x.Results.Uint32()); s != wire.NFS3OK {
					err = fmt.Errorf("%v: %v", p, s)
				}
			}
			if r.ended(err) {
				r.start(i)
			}
		}
	}
	return func(n int) error { return r.run(n, len(r.all), r.start) }
}

func (r *rotating) start(i int) {
	at := r.at[i]
	r.at[i] = (at + len(r.all)) % len(r.conns)
	r.conns[at].Start(r.all[i])
}

// A cell is one figure of the table: the number of connections, and the number of calls at a
// time.
type cell struct{ conns, depth int }

// cells returns the cells of the table, with 1, 10, 100 and so on connections, up to the given
// number: first with underWay calls at a time, then with one call on each connection.
func cells(most int) (all []cell) {
	for n := 1; n <= most; n *= 10 {
		all = append(all, cell{n, underWay})
	}
	for n := 1; n <= most; n *= 10 {
		if n != underWay {
			all = append(all, cell{n, n})
		}
	}
	return all
}

// scale prints the table of these measurements. For each procedure and each number of processors,
// it measures every cell once in each round.
func scale(rounds int, length time.Duration, only, procs string, most int, waits string) error {
	var counts []int
	for text := range strings.SplitSeq(procs, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fmt.Errorf("-procs: %q is no number of processors", text)
		}
		counts = append(counts, n)
	}
	fmt.Printf("%s, %d processors, %s\n\n", cpuModel(), runtime.NumCPU(), runtime.Version())
	fmt.Println("| call | GOMAXPROCS | connections | under way | calls a second | server, us for each | client, us for each |")
	fmt.Println("|---|---|---|---|---|---|---|")
	servers := make([]*scaled, len(counts))
	var errs []error
	for i, n := range counts {
		d, err := startScaled(n, waits)
		if err != nil {
			return err
		}
		defer func() {
			if err := d.close(); err != nil {
				fmt.Fprintln(os.Stderr, "figures: the server:", err)
			}
		}()
		servers[i] = d
		errs = append(errs, d.connect(most))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, of := range []struct {
		name string
		p    wire.Procedure
		rdma bool
	}{
		{"GETATTR over TCP", wire.ProcGetattr, false}, {"GETATTR over RDMA", wire.ProcGetattr, true},
		{"READ 4 KiB over TCP", wire.ProcRead, false}, {"READ 4 KiB over RDMA", wire.ProcRead, true},
		{"WRITE 4 KiB over TCP", wire.ProcWrite, false}, {"WRITE 4 KiB over RDMA", wire.ProcWrite, true},
	} {
		if !strings.Contains(of.name, only) {
			continue
		}
		for i, d := range servers {
			conns := d.overTCP
			if of.rdma {
				conns = d.overRDMA
			}
			if err := d.table(of.name, counts[i], conns, of.p, cells(most), rounds, length); err != nil {
				return fmt.Errorf("%s: %w", of.name, err)
			}
		}
	}
	return nil
}

// table measures one procedure for each cell in all, and prints one row for each cell.
func (d *scaled) table(name string, procs int, conns []rpc.Caller, p wire.Procedure, all []cell, rounds int, length time.Duration) error {
	runs := make([]func(n int) error, len(all))
	rates, costs, clients := make([][]float64, len(all)), make([][]float64, len(all)), make([][]float64, len(all))
	for i, c := range all {
		runs[i] = d.over(conns[:c.conns], c.depth, p)
	}
	for round := range rounds + 1 {
		for i := range all {
			before, err := d.used()
			if err != nil {
				return err
			}
			own := processorTime()
			done, spent, err := repeat(runs[i], all[i].depth, length)
			if err != nil {
				return err
			}
			own = processorTime() - own
			after, err := d.used()
			if err != nil {
				return err
			}
			if round > 0 { // the first round only warms up
				n := float64(done)
				rates[i] = append(rates[i], n/spent.Seconds())
				costs[i] = append(costs[i], (after-before).Seconds()/n*1e6)
				clients[i] = append(clients[i], own.Seconds()/n*1e6)
			}
		}
	}
	for i, c := range all {
		fmt.Printf("| %s | %d | %d | %d | %.0f | %.2f (%.2f to %.2f) | %.2f |\n", name, procs, c.conns, c.depth, median(rates[i]),
			median(costs[i]), slices.Min(costs[i]), slices.Max(costs[i]), median(clients[i]))
	}
	return nil
}
