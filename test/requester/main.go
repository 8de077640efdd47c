// Command requester uses this module's NFS client with any NFS server. It uses every form of
// RPC-over-RDMA message, and compares the data that it reads with the data that it wrote:
//
//	requester [flags] HOST EXPORT
//
// By default it uses NFSv3 over RDMA. It makes WRITEs and READs of many sizes up to 1 MiB,
// READDIRPLUS listings that need Reply chunks, most procedures with names of 255 bytes, and calls
// in Position-Zero Read chunks. With --nfs 4.1 or 4.2 it uses sessions, over RDMA or TCP:
// transfers, names and listings, locks, and a delegation that the server recalls, if it grants
// one. EXPORT is then a path below the server's root. It exits with 0 if everything was right.
//
// Tests run it in their own networks. It does not measure speed.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/nfsrdmad/nfsrdmad/client"
)

// work has the values of the flags.
type work struct {
	host, export    string
	nfs             string
	transport       client.Transport
	version         client.RDMAVersion
	port, mountPort int
	names, rounds   int
	faults          bool
}

func main() {
	var w work
	limit := flag.Duration("limit", 2*time.Minute, "end of patience")
	flag.IntVar(&w.port, "port", 0, "port of NFS; 0: the transport's own")
	flag.IntVar(&w.mountPort, "mount-port", client.PortNFS, "port of MOUNT over TCP; 0: on the connection itself, where it is served there")
	flag.IntVar(&w.names, "names", 200, "names in the directory that is listed")
	flag.IntVar(&w.rounds, "rounds", 4, "transfers of 1 MiB")
	flag.StringVar(&w.nfs, "nfs", "3", "version of NFS: 3, 4.1 or 4.2")
	over := flag.String("transport", "rdma", "rdma or tcp, which is for NFS version 4 only")
	flag.BoolVar(&w.faults, "faults", false, "also send what must be answered by RDMA_ERROR")
	version := flag.String("rdma-version", "1", "version of RPC-over-RDMA: 1 or 2")
	flag.Parse()
	if flag.NArg() != 2 || w.nfs != "3" && minors[w.nfs] == 0 {
		fmt.Fprintln(os.Stderr, "usage: requester [flags] HOST EXPORT")
		os.Exit(2)
	}
	w.host, w.export, w.transport = flag.Arg(0), flag.Arg(1), client.Transport(*over)
	w.version = client.RDMAVersion(*version)
	w.port = cmp.Or(w.port, w.transport.Port())
	ctx, cancel := context.WithTimeout(context.Background(), *limit)
	defer cancel()
	run := w.run
	if minors[w.nfs] != 0 {
		run = w.runFour
	}
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "requester:", err)
		cancel()
		os.Exit(1)
	}
}

// run runs each step on a new connection, because a dissector that loses the frame boundaries in
// one connection finds them again in the next.
func (w work) run(ctx context.Context) error {
	for _, step := range []struct {
		name string
		do   func(s session) error
	}{
		{"transfers", func(s session) error { return s.transfers(w.rounds) }},
		{"long names", session.longNames},
		{"listings", func(s session) error { return s.listings(w.names) }},
		{"texts", session.texts},
		{"long messages", func(s session) error { return w.long(ctx, s.root) }},
	} {
		start := time.Now()
		if err := w.connected(ctx, step.do); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Printf("%s: %s\n", step.name, time.Since(start).Round(time.Millisecond))
	}
	if w.faults {
		if err := w.fault(ctx); err != nil {
			return fmt.Errorf("faults: %w", err)
		}
	}
	return nil
}

// connected mounts the export over a new connection, and calls the function do with it.
func (w work) connected(ctx context.Context, do func(s session) error) error {
	c, err := client.Dial(ctx, client.Target{
		Transport: client.RDMA, Host: w.host, Port: w.port, RDMAVersion: w.version, Cred: client.Self(),
	})
	if err != nil {
		return err
	}
	defer c.Close()
	root, err := c.MountRoot(ctx, w.export, w.mountPort)
	if err != nil {
		return fmt.Errorf("mounting: %w", err)
	}
	return do(session{ctx: ctx, conn: c, nfs: c.NFS3(), root: root})
}
