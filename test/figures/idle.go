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
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// idleServer is the argument with which this program runs as the server whose memory is measured.
const idleServer = "idle-server"

// idleTitle is the title of the table of idle connections.
const idleTitle = "idle RDMA connections"

// Numbers of connections. The first idleShared connections are not measured, because they
// allocate the memory that all connections share.
const (
	idleShared = 20
	idleSingle = 9 // number of measurements of a single connection
	idleMany   = 1000
)

// A footprint is the memory of a process in bytes: the resident memory, and the memory in use in
// the Go heap and stacks.
type footprint struct{ resident, heap int }

func (a footprint) since(b footprint, connections int) footprint {
	return footprint{(a.resident - b.resident) / connections, (a.heap - b.heap) / connections}
}

// serveIdle runs the server. It prints its address. For each line that it reads, it returns
// unused memory to the system and prints the memory in use.
func serveIdle(in io.Reader, out io.Writer) error {
	pool, err := mem.NewPool(mem.Config{Ceiling: 64 << 20})
	if err != nil {
		return err
	}
	calls := rpc.NewServer(rpc.Config{})
	calls.Register(nfs3.New(export.NewTable([export.KeySize]byte{1})))
	device, err := iwarp.New(iwarp.Config{})
	if err != nil {
		return err
	}
	l, err := device.Listen(netip.MustParseAddrPort("127.0.0.1:0"))
	if err != nil {
		return err
	}
	// StrangerCredits is the grant to a client that has not yet used a file handle of the server.
	// These clients never use one, and the default would be less than DefaultCredits.
	server, err := rdma.NewServer(rdma.Config{RPC: calls, Pool: pool, RemoteInvalidation: true, StrangerCredits: rdma.DefaultCredits})
	if err != nil {
		return err
	}
	go server.Serve(l)
	fmt.Fprintln(out, l.Addr())
	for lines := bufio.NewScanner(in); lines.Scan(); {
		debug.FreeOSMemory()
		debug.FreeOSMemory() // the second collection frees the contents of pools
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		fmt.Fprintln(out, m.HeapAlloc+m.StackInuse)
	}
	return nil
}

// idle is a server process and the connections to it.
type idle struct {
	process *exec.Cmd
	ask     io.WriteCloser
	answers *bufio.Scanner
	device  *iwarp.Provider
	addr    netip.AddrPort
	clients []*rdma.Client
}

func startIdle() (*idle, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	i := &idle{process: exec.Command(self, idleServer)}
	i.process.Stderr = os.Stderr
	if i.ask, err = i.process.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := i.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	i.answers = bufio.NewScanner(out)
	if i.device, err = iwarp.New(iwarp.Config{}); err != nil {
		return nil, err
	}
	if err := i.process.Start(); err != nil {
		return nil, err
	}
	line, err := i.answer()
	if err == nil {
		i.addr, err = netip.ParseAddrPort(line)
	}
	if err != nil {
		i.close()
	}
	return i, err
}

func (i *idle) answer() (string, error) {
	if !i.answers.Scan() {
		return "", errors.Join(errors.New("the idle server ended"), i.answers.Err())
	}
	return i.answers.Text(), nil
}

func (i *idle) close() {
	for _, c := range i.clients {
		c.Close()
	}
	i.ask.Close()
	i.process.Wait()
}

// connect adds n connections. Each makes a call, and the reply must grant rdma.DefaultCredits
// credits.
func (i *idle) connect(n int) error {
	for range n {
		c, err := rdma.Dial(context.Background(), i.device, i.addr, rdma.DialConfig{})
		if err != nil {
			return err
		}
		i.clients = append(i.clients, c)
		x := rpc.Exchange{Program: wire.Program, Version: wire.Version}
		if err := rpc.Do(context.Background(), c, &x, nil); err != nil {
			return err
		}
		if info, _ := c.Info(); info.Granted != rdma.DefaultCredits {
			return fmt.Errorf("%d credits are granted", info.Granted)
		}
	}
	return nil
}

// measure returns the server's present memory use.
func (i *idle) measure() (f footprint, err error) {
	if _, err := fmt.Fprintln(i.ask); err != nil {
		return f, err
	}
	line, err := i.answer()
	if err != nil {
		return f, err
	}
	if f.heap, err = strconv.Atoi(line); err != nil {
		return f, err
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", i.process.Process.Pid))
	if err != nil {
		return f, err
	}
	for line := range strings.Lines(string(status)) {
		if v, found := strings.CutPrefix(line, "VmRSS:"); found {
			f.resident, err = strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(v), " kB"))
			f.resident <<= 10
			return f, err
		}
	}
	return f, errors.New("no VmRSS in the server's status")
}

// grow adds n connections and returns the memory that each of them takes in the server.
func (i *idle) grow(n int) (f footprint, err error) {
	before, err := i.measure()
	if err != nil {
		return f, err
	}
	if err := i.connect(n); err != nil {
		return f, err
	}
	after, err := i.measure()
	return after.since(before, n), err
}

// idleConnections measures the memory that idle RDMA connections take in a server process, and
// prints a table.
func idleConnections() error {
	i, err := startIdle()
	if err != nil {
		return err
	}
	defer i.close()
	if err := i.connect(idleShared); err != nil {
		return err
	}
	var resident, heap []float64
	for range idleSingle {
		f, err := i.grow(1)
		if err != nil {
			return err
		}
		resident, heap = append(resident, float64(f.resident)), append(heap, float64(f.heap))
	}
	many, err := i.grow(idleMany)
	if err != nil {
		return err
	}
	fmt.Printf("\n| %s, %d credits granted | resident, bytes each | heap and stacks, bytes each |\n|---|---|---|\n", idleTitle, rdma.DefaultCredits)
	fmt.Printf("| 1 (median of %d) | %.0f | %.0f |\n", idleSingle, median(resident), median(heap))
	fmt.Printf("| %d | %d | %d |\n", idleMany, many.resident, many.heap)
	return nil
}
