package client

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/mount3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// ProbeConfig says what to ask.
type ProbeConfig struct {
	Host string
	// Port; 0 means each transport's own.
	Port int
	// Transports are tried in this order.
	Transports []Transport
	// MountPort is where MOUNT listens; 0: find it (DialMount).
	MountPort int
	// Timeout bounds each step: connecting, a call (5 s).
	Timeout time.Duration
	// RoundTrips is how many calls the times are taken of (16).
	RoundTrips int
	// Provider is as in Target.
	Provider rdmacm.Provider
}

// A Probed is what was found. Its JSON keys are stable.
type Probed struct {
	Host       string            `json:"host"`
	Transports []ProbedTransport `json:"transports"`
	// Exports are what MOUNT lists; ExportsFault says why it did not.
	Exports      []Export `json:"exports"`
	ExportsFault string   `json:"exports_fault,omitempty"`
}

// A ProbedTransport is what was found at one address.
type ProbedTransport struct {
	Transport Transport `json:"transport"`
	Address   string    `json:"address"`
	// NFS: the server answered calls of NFS in at least one version.
	NFS bool `json:"nfs"`
	// Fault is one sentence on what is wrong, where something is; Detail is
	// the error behind it.
	Fault  string `json:"fault,omitempty"`
	Detail string `json:"detail,omitempty"`
	// Notes are sentences on what is not wrong but worth knowing.
	Notes []string `json:"notes,omitempty"`

	Connect   time.Duration    `json:"connect_ns,omitempty"`
	IWARP     *ProbedIWARP     `json:"iwarp,omitempty"`
	RPCRDMA   *ProbedRPCRDMA   `json:"rpcrdma,omitempty"`
	Programs  []ProbedProgram  `json:"programs,omitempty"`
	RoundTrip *ProbedRoundTrip `json:"round_trip,omitempty"`
}

// ProbedRoundTrip is how long NULL calls of NFS took, one at a time.
type ProbedRoundTrip struct {
	Calls  int           `json:"calls"`
	Min    time.Duration `json:"min_ns"`
	Median time.Duration `json:"median_ns"`
	Max    time.Duration `json:"max_ns"`
}

// Serves says that NFS was found: over every transport where all is set,
// otherwise over one at least.
func (p *Probed) Serves(all bool) bool {
	missing := func(t ProbedTransport) bool { return !t.NFS }
	if all {
		return len(p.Transports) > 0 && !slices.ContainsFunc(p.Transports, missing)
	}
	return slices.ContainsFunc(p.Transports, func(t ProbedTransport) bool { return t.NFS })
}

// Probe tells what a server speaks. Faults of the server are part of what it
// returns.
func Probe(ctx context.Context, cfg ProbeConfig) *Probed {
	if cfg.Timeout <= 0 {
		cfg.Timeout = 5 * time.Second
	}
	if cfg.RoundTrips <= 0 {
		cfg.RoundTrips = 16
	}
	p := &Probed{Host: cfg.Host, Exports: []Export{}}
	exports := errors.New("no connection to a server")
	listed := false
	for _, t := range cfg.Transports {
		b := &prober{cfg: cfg, target: Target{Transport: t, Host: cfg.Host, Port: cfg.Port, Provider: cfg.Provider}}
		b.out.Transport, b.out.Address = t, b.target.Address()
		if b.dial(ctx) {
			b.look(ctx)
			if b.out.NFS && !listed {
				var all []Export
				if all, exports = b.exports(ctx); exports == nil {
					p.Exports, listed = append(p.Exports, all...), true
				}
			}
			b.conn.Close()
		}
		p.Transports = append(p.Transports, b.out)
	}
	if !listed && p.Serves(false) {
		p.ExportsFault = exports.Error()
	}
	return p
}

// A prober looks at one address.
type prober struct {
	cfg    ProbeConfig
	target Target
	conn   *Conn
	out    ProbedTransport
}

// step bounds one step.
func (b *prober) step(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, b.cfg.Timeout)
}

func (b *prober) dial(ctx context.Context) bool {
	ctx, cancel := b.step(ctx)
	defer cancel()
	start := time.Now()
	c, err := Dial(ctx, b.target)
	if err != nil {
		b.fault(dialFault(b.target, err), err)
		return false
	}
	b.out.Connect = time.Since(start)
	b.conn = c
	return true
}

func (b *prober) fault(sentence string, err error) {
	b.out.Fault, b.out.Detail = sentence, err.Error()
}

// look asks the server that b is connected to.
func (b *prober) look(ctx context.Context) {
	if b.target.Transport == RDMA {
		b.describeIWARP()
	}
	for _, p := range probedPrograms {
		found, err := b.scan(ctx, p)
		if err != nil {
			b.fault(callFault(b.target, err), err)
			break
		}
		if found == nil {
			continue
		}
		b.out.Programs = append(b.out.Programs, *found)
		b.out.NFS = b.out.NFS || p.number == nfs3wire.Program && len(found.Versions) > 0
	}
	if b.target.Transport == RDMA {
		b.describeRPCRDMA() // now that replies have granted credits
	}
	if b.out.Fault != "" {
		b.out.NFS = false
		return
	}
	if !b.out.NFS {
		b.out.Fault = noNFSFault(b.target, b.out.Programs)
		return
	}
	if err := b.roundTrips(ctx); err != nil {
		b.fault(callFault(b.target, err), err)
	}
}

// roundTrips takes the time of NULL calls of the NFS version that is there.
func (b *prober) roundTrips(ctx context.Context) error {
	i := slices.IndexFunc(b.out.Programs, func(p ProbedProgram) bool { return p.Number == nfs3wire.Program })
	version := b.out.Programs[i].Versions[0]
	times := make([]time.Duration, b.cfg.RoundTrips)
	for i := range times {
		start := time.Now()
		if err := b.null(ctx, nfs3wire.Program, version); err != nil {
			return err
		}
		times[i] = time.Since(start)
	}
	slices.Sort(times)
	b.out.RoundTrip = &ProbedRoundTrip{len(times), times[0], times[len(times)/2], times[len(times)-1]}
	return nil
}

func (b *prober) null(ctx context.Context, program, version uint32) error {
	ctx, cancel := b.step(ctx)
	defer cancel()
	return b.conn.Null(ctx, program, version)
}

// exports lists them, by the MOUNT service that belongs to the server.
func (b *prober) exports(ctx context.Context) ([]Export, error) {
	ctx, cancel := b.step(ctx)
	defer cancel()
	m, own, err := b.conn.DialMount(ctx, b.cfg.MountPort)
	if err != nil {
		return nil, err
	}
	if own {
		defer m.Close()
	}
	all, err := m.Exports(ctx)
	if _, refused := errors.AsType[*rpc.ReplyError](err); refused {
		return nil, errors.Join(ErrNoMount, err)
	}
	return all, err
}

// probedPrograms are the programs that belong to NFS (RFC 5531 §8.3; IANA).
var probedPrograms = []struct {
	number uint32
	name   string
}{
	{nfs3wire.Program, "nfs"},
	{mount3wire.Program, "mountd"},
	{100021, "nlockmgr"},
	{100024, "status"},
	{100227, "nfs_acl"},
	{rpcbindProgram, "rpcbind"},
}
