package nlm

import (
	"bytes"
	"net/netip"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nlm4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// An incarnation is what the package remembers about a host from one of its restarts to the next.
type incarnation struct {
	program *Program
	name    []byte
	// restarts is the number that the host's status monitor counts up at each restart; 0 if it is unknown.
	restarts atomic.Int32
	// unproven is true for a host that has only sent datagrams.
	unproven atomic.Bool
}

// maxUnproven is the largest number of hosts that have only sent datagrams: an eighth of the clients for which there is
// room. A machine that may read a file can send datagrams in the name of any address.
const maxUnproven = 2048

// Gone implements state.Companion.
func (i *incarnation) Gone() { i.proven() }

// proven counts the host no more among the unproven.
func (i *incarnation) proven() {
	if i.unproven.Load() && i.unproven.CompareAndSwap(true, false) {
		i.program.unproven.Add(-1)
	}
}

// introduce returns the host that calls. The number of its restarts is kept from the first LOCK that has one. A larger
// number in a later LOCK ends nothing: Linux has one number for all network namespaces of a machine, so the host may live.
// A user of the machine may send any number, but not from a port of its system.
func (r *request) introduce(restarts int32) (*state.Client, state.Verdict) {
	m, c := r.program.state, r.call.Conn
	if !c.Privileged {
		restarts = 0
	}
	host, datagrams := r.host(), c.Transport == "udp"
	if host == nil {
		i := &incarnation{program: r.program, name: bytes.Clone(r.lock.CallerName)}
		i.restarts.Store(restarts)
		if datagrams {
			i.unproven.Store(true)
			if r.program.unproven.Add(1) > maxUnproven {
				i.proven()
				return nil, state.Full
			}
		}
		host, s := m.HostOf(r.lock.CallerName, c.Peer.Addr(), c.Local.Addr(), i)
		if s != state.Granted || host.Companion() != i {
			i.proven()
		}
		return host, s
	}
	is := host.Companion().(*incarnation)
	is.restarts.CompareAndSwap(0, restarts)
	if !datagrams {
		is.proven()
	}
	return host, state.Granted
}

// restarted ends what a host holds, because a message from its address (at) says that it has restarted. If the number is not
// larger than the one that the host had when it locked, the message is an earlier one, which comes again.
func (p *Program) restarted(host *state.Client, at netip.Addr, restarts int32) {
	if was := host.Companion().(*incarnation).restarts.Load(); restarts == 0 || was == 0 || restarts-was > 0 {
		p.state.ForgetHost(host)
		p.messages.forget(at)
	}
}

// freeAll is FREE_ALL (RFC 1813 §6.2). It comes from the host itself, from a port that only its system uses: anyone can
// send a name. It has no result that could refuse.
func (p *Program) freeAll(c *rpc.Call) rpc.Outcome {
	var args wire.Notify4
	if args.Decode(&c.Args); c.Args.Finish() != nil {
		return rpc.GarbageArgs
	}
	if host := p.state.FindHost(args.Name, c.Conn.Peer.Addr()); host != nil && c.Conn.Privileged {
		p.restarted(host, c.Conn.Peer.Addr(), args.State)
	}
	return rpc.Done
}
