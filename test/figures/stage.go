package main

import (
	"context"
	"net"
	"net/netip"
	"os"
	"slices"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
	"github.com/nfsrdmad/nfsrdmad/transport/tcp"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs41"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// A stage is an environment for the figures: a server in this process, with a directory of its
// own, and functions to run at the end.
type stage struct {
	cred rpc.AuthBytes
	ends []func()
}

func newStage() (*stage, error) {
	s := new(stage)
	var err error
	s.cred, err = rpc.AuthSysCred(0, "figures", uint32(os.Getuid()), uint32(os.Getgid()), nil)
	return s, err
}

func (s *stage) atEnd(f func()) { s.ends = append(s.ends, f) }

func (s *stage) close() {
	for _, f := range slices.Backward(s.ends) {
		f()
	}
}

func (s *stage) tcpPair() (a, b net.Conn, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	if a, err = net.Dial("tcp", l.Addr().String()); err != nil {
		return nil, nil, err
	}
	b, err = l.Accept()
	return a, b, err
}

// A served is a server of the stage's directory, with connections to it over RDMA and over TCP.
type served struct {
	overRDMA, overTCP rpc.Caller
	device            *iwarp.Provider
	rdma              netip.AddrPort
	tcp               string
	root              wire.FileHandle3
	server            *rpc.Server
}

// serve starts the server, with all versions of NFS, and connects to it.
func (s *stage) serve() (*served, error) {
	v := new(served)
	fail := func(err error) (*served, error) { return nil, err }
	base := "/dev/shm" // in memory, so that no disk is measured
	dir, err := os.MkdirTemp(base, "figures")
	if err != nil {
		return fail(err)
	}
	s.atEnd(func() { os.RemoveAll(dir) })
	fs, err := local.New(local.Config{Root: dir, StateDir: dir + ".state"})
	if err != nil {
		return fail(err)
	}
	s.atEnd(func() { fs.Close() })
	e := &export.Export{Name: "/", FS: fs, Options: export.Options{Squash: export.NoSquash}}
	table := export.NewTable([export.KeySize]byte{1})
	if err := table.Replace([]*export.Export{e}); err != nil {
		return fail(err)
	}
	v.root.Data = table.Seal(nil, e, fs.Root())
	table.SetRoot(&export.Export{Name: "/", FS: fs, Options: export.Options{Squash: export.NoSquash}})
	pool, err := mem.NewPool(mem.Config{Ceiling: 256 << 20})
	if err != nil {
		return fail(err)
	}
	s.atEnd(pool.Close)
	server := rpc.NewServer(rpc.Config{})
	v.server = server
	server.Register(nfs3.New(table))
	clients, err := state.New(state.Config{})
	if err != nil {
		return fail(err)
	}
	s.atEnd(clients.Close)
	later := nfs41.New(nfs41.Config{State: clients, Owner: []byte("figures"), Scope: []byte("figures")})
	server.Register(nfs4.New(nfs4.Config{Exports: table, State: clients, Minors: [3]nfs4.Minor{1: later, 2: later}}))
	s.atEnd(server.Close)

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fail(err)
	}
	ts := tcp.NewServer(tcp.Config{RPC: server, Pool: pool})
	go ts.Serve(l)
	s.atEnd(func() { l.Close(); ts.Close() })
	tc, err := tcp.Dial(context.Background(), l.Addr().String(), tcp.DialConfig{})
	if err != nil {
		return fail(err)
	}
	s.atEnd(func() { tc.Close() })

	v.device, err = iwarp.New(iwarp.Config{CRC: iwarp.CRCOff})
	if err != nil {
		return fail(err)
	}
	rl, err := v.device.Listen(netip.MustParseAddrPort("127.0.0.1:0"))
	if err != nil {
		return fail(err)
	}
	// Without StrangerCredits, the server would grant fewer credits to a client that has not yet used
	// a file handle (see rpc.Conn.Known).
	rs, err := rdma.NewServer(rdma.Config{RPC: server, Pool: pool, RemoteInvalidation: true, StrangerCredits: rdma.DefaultCredits})
	if err != nil {
		return fail(err)
	}
	go rs.Serve(rl)
	s.atEnd(func() { rl.Close(); rs.Close() })
	// The sessions connect by client.Dial, which sets RemoteInvalidation. This connection sets it
	// too, so that the figures can be compared.
	rc, err := rdma.Dial(context.Background(), v.device, rl.Addr(), rdma.DialConfig{RemoteInvalidation: true})
	if err != nil {
		return fail(err)
	}
	s.atEnd(func() { rc.Close() })
	v.overRDMA, v.overTCP, v.rdma, v.tcp = rc, tc, rl.Addr(), l.Addr().String()
	return v, nil
}

// depth is the number of calls of 1 MiB that are under way at a time.
const depth = 8

// figures returns all figures, in the order of the table.
func (s *stage) figures() ([]figure, error) {
	bare, err := s.newStream()
	if err != nil {
		return nil, err
	}
	file, err := s.newCopied()
	if err != nil {
		return nil, err
	}
	echoed, err := s.newEcho(16)
	if err != nil {
		return nil, err
	}
	var errs []error
	device := func(f func(iwarp.CRCMode) (func(int) error, error), crc iwarp.CRCMode) func(int) error {
		run, err := f(crc)
		errs = append(errs, err)
		return run
	}
	const tcpStream, echo16, nullTCP = "bare TCP stream, 1 MiB writes", "record-marking echo, depth 16", "NULL over TCP, depth 32"
	all := []figure{
		{tcpStream, mib, "", 0, bare.run},
		{"bare TCP stream, each MiB read from a file", mib, tcpStream, 0, file.run},
		{"RDMA Write 1 MiB, CRC off", mib, tcpStream, 0.85, device(s.rdmaWrite, iwarp.CRCOff)},
		{"RDMA Write 1 MiB, CRC on", mib, tcpStream, 0.65, device(s.rdmaWrite, iwarp.CRCOn)},
		{"RDMA Read 1 MiB, CRC off", mib, tcpStream, 0.75, device(s.rdmaRead, iwarp.CRCOff)},
	}
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	v, err := s.serve()
	if err != nil {
		return nil, err
	}
	rc, tc := v.overRDMA, v.overTCP
	fh, err := s.create(tc, v.root)
	if err != nil {
		return nil, err
	}
	write := s.newCalls(rc, depth).write(fh, mib)
	if err := write(depth); err != nil { // writes the data that the READs return
		return nil, err
	}
	getattrs, err := s.getattrs(v.tcp, 16, fh)
	if err != nil {
		return nil, err
	}
	four, err := s.four(v, fh)
	if err != nil {
		return nil, err
	}
	all = append(all,
		figure{"NFS READ 1 MiB over iWARP", mib, tcpStream, 0.80, s.newCalls(rc, depth).read(fh, mib)},
		figure{"NFS WRITE 1 MiB over iWARP", mib, tcpStream, 0.60, write},
		figure{"NFS READ 1 MiB over TCP", mib, tcpStream, 0, s.newCalls(tc, depth).read(fh, mib)},
		figure{"NFS WRITE 1 MiB over TCP", mib, tcpStream, 0, s.newCalls(tc, depth).write(fh, mib)},
		figure{echo16, 0, "", 0, echoed.run},
		figure{"NFS GETATTR over TCP, depth 16", 0, echo16, 0.40, getattrs.run},
		figure{nullTCP, 0, "", 0, s.newCalls(tc, 32).null()},
		figure{"NULL over RDMA, depth 32", 0, nullTCP, 0.60, s.newCalls(rc, 32).null()},
	)
	return slices.Concat(all, four, s.security(v, fh)), nil
}
