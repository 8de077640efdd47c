package nlm

import (
	"bytes"
	"context"
	"net/netip"
	"sync"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpcbind"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nsmwire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// A Monitor serves the Network Status Monitor version 1 (X/Open C702 §11): hosts tell it that they have restarted, and
// it tells the hosts that held locks before this server's restart (Announce). It watches hosts for Program alone, and
// takes no calls of other programs to watch one.
type Monitor struct {
	nfs.Service
	program *Program

	mu sync.Mutex
	// heard has the number of the last NOTIFY of each name at an address.
	heard map[source]int32
}

type source struct {
	address netip.Addr
	name    string
}

// maxHeard is the largest number of sources of NOTIFY that a Monitor remembers.
const maxHeard = 4096

// NewMonitor returns the Monitor for the hosts of p.
func NewMonitor(p *Program) *Monitor {
	return &Monitor{
		Service: nfs.Service{Program: wire.Program, Version: wire.Version, Procedures: &nfs.BindingNSM},
		program: p, heard: make(map[source]int32),
	}
}

// Judge admits every call.
func (m *Monitor) Judge(*rpc.Arrived, *rpc.Judgement) rpc.Outcome { return rpc.Done }

// Serve runs one procedure.
func (m *Monitor) Serve(c *rpc.Call, w *xdr.Writer) rpc.Outcome {
	switch wire.Procedure(c.Header.Procedure) {
	case wire.ProcStat:
		var args wire.Name
		if args.Decode(&c.Args); c.Args.Finish() != nil {
			return rpc.GarbageArgs
		}
		// The caller learns this server's number, but not which hosts it watches.
		(&wire.StatRes{Result: wire.Failure, State: m.restarts()}).Encode(w)
		return rpc.Done
	case wire.ProcNotify:
		var args wire.Status
		if args.Decode(&c.Args); c.Args.Finish() != nil {
			return rpc.GarbageArgs
		}
		m.notify(c.Conn, &args)
		return rpc.Done
	}
	if c.Args.Finish() != nil {
		return rpc.GarbageArgs
	}
	return rpc.Done
}

// restarts returns the number of this server's starts as hosts count them: odd while it is up, and growing.
func (m *Monitor) restarts() int32 { return int32(m.program.state.Epoch()>>8)<<1 | 1 }

// notify is NOTIFY: a host has restarted. The host is the one at the address from which the message comes, from a port
// that only its system uses, because anyone can send a name. The name only decides between several hosts at one address
// (behind a translator). Hosts do not agree on whether they send their short or their full name.
func (m *Monitor) notify(c *rpc.Conn, args *wire.Status) {
	if !c.Privileged {
		return
	}
	hosts := m.program.state.HostsAt(c.Peer.Addr())
	if len(hosts) == 0 || m.again(source{c.Peer.Addr().Unmap(), string(args.Name)}, args.State) {
		return
	}
	for _, h := range hosts {
		if len(hosts) == 1 || bytes.Equal(h.Companion().(*incarnation).name, args.Name) {
			m.program.restarted(h, c.Peer.Addr(), args.State)
		}
	}
}

// again reports whether the same message has come before: a host repeats it until it hears the answer, and may have
// locked something since the first one.
func (m *Monitor) again(s source, restarts int32) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	was, known := m.heard[s]
	if !known && len(m.heard) >= maxHeard {
		clear(m.heard)
	}
	m.heard[s] = restarts
	return known && was == restarts
}

// tellRestart tells the status monitor of a host that this server has restarted, from the address that the host has
// called. Linux's monitor knows the server by that address or by the name under which it is mounted, so both are told.
func (m *Monitor) tellRestart(ctx context.Context, h *state.FormerHost) error {
	g := &m.program.granter
	ctx, cancel := context.WithTimeout(ctx, hostAnswers)
	defer cancel()
	dial := g.dial(h.Local)
	port, err := portOf(ctx, h.Address, wire.Program, wire.Version, rpcbind.Netid("tcp", h.Address), dial)
	if err != nil {
		return err
	}
	k, err := dial(ctx, "tcp", netip.AddrPortFrom(h.Address, port).String())
	if err != nil {
		return err
	}
	defer k.Close()
	for _, name := range []string{h.Local.String(), g.machine} {
		args := wire.Status{Name: []byte(name), State: m.restarts()}
		if err := rpc.Do(ctx, k, &rpc.Exchange{
			Program: wire.Program, Version: wire.Version, Procedure: uint32(wire.ProcNotify), Cred: g.cred,
			Args: args.Encode, MaxArgs: wire.StatusMaxSize,
		}, nil); err != nil {
			return err
		}
	}
	return nil
}
