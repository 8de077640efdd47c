package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/client/bench"
	"github.com/nfsrdmad/nfsrdmad/server/config"
)

func benchCommand() *cobra.Command {
	var (
		cfg            bench.Config
		transport      string
		size, fileSize = byteCount{1 << 20}, byteCount{256 << 20}
		uid, gid       int
		output         benchOutput
		connect        connectFlags
	)
	c := &cobra.Command{
		Use:   "bench HOST:/export...",
		Short: "Measure an NFS server, or compare several",
		Long: `Measure an NFS server by NFS version 3, 4.1 or 4.2, over TCP or RDMA. Its
files lie in a directory of their own in the export; bench removes the directory
afterwards.

Several servers are measured in turns, each --rounds times for --duration, and compared:
the ratio is that of the medians, to the first server. HOST may have a port.

After Ctrl-C the results so far are printed, and the exit status is 3.

Workloads: read, write, randread, randwrite, getattr, create (a file made and
removed), readdirplus, null, and syncwrite, which is randwrite with FILE_SYNC WRITEs;
the other workloads write UNSTABLE. bench reduces a transfer that is larger than the
server's limit to that limit.

By NFS version 4 all connections share one session. A READ or WRITE is a request
of SEQUENCE, PUTFH, READ or WRITE, and, without --no-attributes, GETATTR; null is
SEQUENCE alone. Version 4 has readdir instead of readdirplus, and also open,
which opens and closes a file that exists.

` + securityHelp,
		Args: someArguments("an export, or several to compare: HOST:/export"),
		RunE: func(c *cobra.Command, args []string) error {
			var err error
			if cfg.Transport, err = client.ParseTransport(transport); err != nil {
				return usageError{fmt.Errorf("--transport: %w", err)}
			}
			if cfg.RDMAVersion, err = connect.rdmaVersion(c.Flags(), cfg.Transport); err != nil {
				return err
			}
			if err := checkBench(&cfg, int64(size.Size), int64(fileSize.Size), c.Flags().Changed("duration")); err != nil {
				return usageError{err}
			}
			if cfg.Provider, cfg.Security, err = connect.open(cfg.Transport); err != nil {
				return err
			}
			cfg.MountPort = connect.mountPort
			if cfg.Security != nil && uid >= 0 {
				return usageError{errors.New("--uid is for --sec sys: with Kerberos the server knows who calls")}
			}
			cfg.Cred = client.Self()
			if uid >= 0 {
				cfg.Cred = client.Identity(uint32(uid), uint32(max(gid, 0)))
			}
			servers, err := benchServers(cfg, args)
			if err != nil {
				return usageError{err}
			}
			return runBench(servers, output)
		},
	}
	f := c.Flags()
	f.StringVar(&transport, "transport", "tcp", "tcp or rdma")
	f.StringVar(&cfg.NFS, "nfs", "3", "version of NFS: 3, 4.1 or 4.2")
	f.BoolVar(&cfg.NoAttributes, "no-attributes", false, "by NFS version 4, READ and WRITE without GETATTR")
	connect.add(f)
	connect.addVersion(f)
	f.IntVar(&cfg.Port, "port", 0, "the server's port (default 2049 for tcp, 20049 for rdma)")
	f.StringVar(&cfg.Workload, "workload", "read", "workload: "+strings.Join(bench.Workloads(), ", ")+"; by NFS version 4: "+strings.Join(bench.Workloads4(), ", "))
	f.Var(&size, "size", "bytes of each READ, WRITE, READDIRPLUS or READDIR")
	f.Var(&fileSize, "file-size", "bytes of each file")
	f.IntVar(&cfg.Depth, "depth", 16, "calls in progress on each connection")
	f.IntVar(&cfg.Connections, "connections", 1, "connections")
	durationVar(f, &cfg.Duration, "duration", 10*time.Second, time.Millisecond, 24*time.Hour, "how long to measure")
	durationVar(f, &cfg.Timeout, "timeout", 30*time.Second, time.Millisecond, time.Hour, "how long connecting, mounting and each step of the preparation may take")
	f.Int64Var(&cfg.Ops, "ops", 0, "end after this number of operations, not after --duration")
	f.IntVar(&uid, "uid", -1, "act as this user (default: the calling user)")
	f.IntVar(&gid, "gid", -1, "and this group, with --uid")
	output.add(f)
	return c
}

func checkBench(cfg *bench.Config, size, fileSize int64, timed bool) error {
	cfg.Size, cfg.FileSize = int(size), fileSize
	if cfg.Ops > 0 && !timed {
		cfg.Duration = 0
	}
	workloads := bench.Workloads()
	if cfg.NFS != "3" {
		workloads = bench.Workloads4()
	}
	switch {
	case cfg.NFS != "3" && cfg.NFS != "4.1" && cfg.NFS != "4.2":
		return fmt.Errorf("--nfs %q is none of 3, 4.1, 4.2", cfg.NFS)
	case !slices.Contains(workloads, cfg.Workload):
		return fmt.Errorf("--workload %q is none of %s", cfg.Workload, strings.Join(workloads, ", "))
	case cfg.NoAttributes && cfg.NFS == "3":
		return fmt.Errorf("--no-attributes is for NFS version 4: version 3 has them in its replies")
	case size < 1 || size > 4<<20:
		return fmt.Errorf("--size %d is not within 1 and 4M", size)
	case fileSize < size:
		return fmt.Errorf("--file-size %d is less than --size %d", fileSize, size)
	case cfg.Depth < 1 || cfg.Depth > 1024 || cfg.Connections < 1 || cfg.Connections > 1024:
		return fmt.Errorf("--depth and --connections are from 1 to 1024")
	case cfg.Ops < 0 || cfg.Duration < 0 || cfg.Duration == 0 && cfg.Ops == 0:
		return fmt.Errorf("--duration and --ops: nothing to measure")
	}
	return nil
}

// A byteCount is a number of bytes as the value of a flag, such as 4096, 64K, 1M or 2G.
type byteCount struct{ config.Size }

func (b *byteCount) Type() string       { return "bytes" }
func (b *byteCount) Set(s string) error { return b.UnmarshalText([]byte(s)) }
