// Package probe finds out what a server supports: the parameters that RNICs and
// RPC-over-RDMA agree on, the RPC programs of NFS and their versions, the exports, and the
// duration of a call. It describes each fault in one sentence.
package probe

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpcbind"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
	rdmawire "github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/mount3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// Config configures Run.
type Config struct {
	Host string
	// Port is the server's port; 0 means the default port of each transport.
	Port int
	// Transports are tried in this order.
	Transports []client.Transport
	// MountPort is the TCP port of the server's MOUNT service. 0 means to find it: see
	// client.Conn.DialMount.
	MountPort int
	// Timeout is the longest time for each step, such as connecting or one call; 0 means 5 s.
	Timeout time.Duration
	// RoundTrips is the number of calls that are timed; 0 means 16.
	RoundTrips int
	// Provider connects over RDMA: see client.Target.
	Provider rdmacm.Provider
	// If Security is not nil, Run also makes an RPCSEC_GSS context with it, and uses it for the
	// calls of NFS version 4.
	Security *client.Security
}

// A Report is what Run found. Its JSON keys are stable; times are in nanoseconds,
// sizes in bytes.
type Report struct {
	Host       string     `json:"host"`
	Transports []Listener `json:"transports"`
	// Exports is the export list of the server's MOUNT service. If the server gave none,
	// ExportsFault is the reason.
	Exports      []Export `json:"exports"`
	ExportsFault string   `json:"exports_fault,omitempty"`
	// Mounting says how this machine mounts from the server. It is nil if no NFS was found.
	Mounting *Mounting `json:"mounting,omitempty"`
	// mountPort is the TCP port of the MOUNT service, or 0.
	mountPort uint16
}

// An Export is an entry of the export list.
type Export struct {
	client.Export
	// Flavors are the flavors that the export accepts, if the server tells them: by MNT of
	// NFS version 3, or by SECINFO of version 4.
	Flavors []client.Flavor `json:"flavors,omitempty"`
	// Refused is the reason why the server refuses to let this machine mount the export. It is empty if the server
	// does not refuse, or was not asked: MNT of NFS version 3 says it, or without version 3 a LOOKUP of version 4.
	Refused string `json:"refused,omitempty"`
	// byVersion4 is true if NFS version 4 has the export by the same name.
	byVersion4 bool
}

// A Listener describes the server at one address, over one transport.
type Listener struct {
	Transport client.Transport `json:"transport"`
	Address   string           `json:"address"`
	// NFS is true if the server answered calls of at least one version of NFS.
	NFS bool `json:"nfs"`
	// Fault is one sentence about a fault, or empty. Detail is the error behind it.
	Fault  string `json:"fault,omitempty"`
	Detail string `json:"detail,omitempty"`
	// Notes are sentences about facts that are no faults.
	Notes []string `json:"notes,omitempty"`

	Connect time.Duration `json:"connect_ns,omitempty"`
	// Carrier describes the local side of the RDMA connection, and IWARP the parameters that two
	// iWARP RNICs agreed on.
	Carrier  *rdmacm.Carrier `json:"carrier,omitempty"`
	IWARP    *rdmacm.MPA     `json:"iwarp,omitempty"`
	RPCRDMA  *RPCRDMA        `json:"rpcrdma,omitempty"`
	Programs []Program       `json:"programs,omitempty"`
	NFS4     *NFS4           `json:"nfs4,omitempty"`
	// GSS is true if the server supports RPCSEC_GSS. Context describes the RPCSEC_GSS context that
	// was made with Config.Security, or is nil. If no context could be made, ContextFault is the
	// reason.
	GSS          bool       `json:"rpcsec_gss"`
	Context      *Context   `json:"context,omitempty"`
	ContextFault string     `json:"context_fault,omitempty"`
	RoundTrip    *RoundTrip `json:"round_trip,omitempty"`
	// six is true if the server was reached at an IPv6 address.
	six bool
}

// RoundTrip is the duration of NULL calls of NFS, made one at a time.
type RoundTrip struct {
	Calls  int           `json:"calls"`
	Min    time.Duration `json:"min_ns"`
	Median time.Duration `json:"median_ns"`
	Max    time.Duration `json:"max_ns"`
}

// Serves reports whether the server was found to serve NFS and, if Config.Security was set,
// whether a context could be made. If all is true, this must hold for each transport that was
// tried, otherwise for at least one.
func (p *Report) Serves(all bool) bool {
	return p.hold(all, func(t Listener) bool { return t.NFS && t.ContextFault == "" })
}

// Found is like Serves, but does not require that an RPCSEC_GSS context could be made.
func (p *Report) Found(all bool) bool {
	return p.hold(all, func(t Listener) bool { return t.NFS })
}

func (p *Report) hold(all bool, f func(t Listener) bool) bool {
	if all {
		return len(p.Transports) > 0 && !slices.ContainsFunc(p.Transports, func(t Listener) bool { return !f(t) })
	}
	return slices.ContainsFunc(p.Transports, f)
}

// Run examines a server. Faults of the server are part of the Report.
func Run(ctx context.Context, cfg Config) *Report {
	if cfg.Timeout <= 0 {
		cfg.Timeout = 5 * time.Second
	}
	if cfg.RoundTrips <= 0 {
		cfg.RoundTrips = 16
	}
	p := &Report{Host: cfg.Host, Exports: []Export{}}
	exports := errors.New("no connection to a server")
	listed := false
	for _, t := range cfg.Transports {
		b := &prober{cfg: cfg, target: client.Target{Transport: t, Host: cfg.Host, Port: cfg.Port, Provider: cfg.Provider}}
		b.out.Transport, b.out.Address = t, b.target.Address()
		if b.dial(ctx) {
			b.look(ctx)
			if b.out.NFS && !listed {
				var all []Export
				if all, exports = b.exports(ctx); exports == nil {
					p.Exports, listed, p.mountPort = append(p.Exports, all...), true, b.mountPort
				}
			}
			b.close()
		}
		p.Transports = append(p.Transports, b.out)
	}
	if !listed && p.Found(false) {
		p.ExportsFault = exports.Error()
	}
	if p.Found(false) {
		p.Mounting = p.mounting(thisMachine())
	}
	return p
}

// A prober examines a server over one transport.
type prober struct {
	cfg    Config
	target client.Target
	conn   *client.Conn
	// secured is a connection that uses Config.Security, or nil.
	secured *client.Conn
	// foreign is true if the server refused version 1 of RPC-over-RDMA.
	foreign bool
	// mountPort is the TCP port at which the MOUNT service was found, or 0.
	mountPort uint16
	out       Listener
}

func (b *prober) close() {
	b.conn.Close()
	if b.secured != nil {
		b.secured.Close()
	}
}

// step returns a context for one step, which ends after Config.Timeout.
func (b *prober) step(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, b.cfg.Timeout)
}

func (b *prober) dial(ctx context.Context) bool {
	ctx, cancel := b.step(ctx)
	defer cancel()
	start := time.Now()
	c, err := client.Dial(ctx, b.target)
	if err != nil {
		b.fault(dialFault(b.target, err), err)
		return false
	}
	b.out.Connect = time.Since(start)
	b.conn = c
	b.out.six = c.Peer().Addr().Unmap().Is6()
	return true
}

// redial replaces the connection after a fault, because the server may have ended it, or may hold its
// answer back.
func (b *prober) redial(ctx context.Context) bool {
	ctx, cancel := b.step(ctx)
	defer cancel()
	c, err := client.Dial(ctx, b.target)
	if err != nil {
		b.out.Notes = append(b.out.Notes, "The server takes no further connection: "+err.Error())
		return false
	}
	b.conn.Close()
	b.conn = c
	return true
}

func (b *prober) fault(sentence string, err error) {
	b.out.Fault, b.out.Detail = sentence, err.Error()
}

// look finds out the programs and properties of the server that b is connected to.
func (b *prober) look(ctx context.Context) {
	if b.target.Transport == client.RDMA {
		b.describeCarrier()
	}
	for _, p := range probedPrograms {
		found, err := b.scan(ctx, p.number, p.name)
		if len(found.Versions) > 0 || found.High > 0 || found.Unchecked || err != nil {
			b.out.Programs = append(b.out.Programs, *found)
		}
		b.out.NFS = b.out.NFS || p.number == nfs3wire.Program && len(found.Versions) > 0
		// A fault of one program says nothing about the others. But if nothing of NFS was found, it
		// says enough about the server.
		if err != nil && (!b.out.NFS || !b.redial(ctx)) {
			if !b.out.NFS {
				b.out.Programs = b.out.Programs[:len(b.out.Programs)-1]
				b.fault(callFault(b.target, err), err)
				refused, is := errors.AsType[*rdma.RefusedError](err)
				b.foreign = is && refused.Code == rdmawire.ErrVers
			}
			break
		}
	}
	if b.target.Transport == client.RDMA {
		b.describeRPCRDMA() // after the calls above, because replies grant the credits
		if b.out.RPCRDMA != nil && (b.out.NFS || b.foreign) {
			b.version2(ctx)
		}
	}
	if b.out.Fault != "" {
		return
	}
	if !b.out.NFS {
		b.out.Fault = noNFSFault(b.target, b.out.Programs)
		return
	}
	b.security(ctx)
	b.nfs4(ctx)
	if err := b.roundTrips(ctx); err != nil {
		b.fault(callFault(b.target, err), err)
	}
}

// roundTrips times NULL calls of the lowest version of NFS that the server supports.
func (b *prober) roundTrips(ctx context.Context) error {
	version := b.version()
	times := make([]time.Duration, b.cfg.RoundTrips)
	for i := range times {
		start := time.Now()
		if err := b.null(ctx, nfs3wire.Program, version); err != nil {
			return err
		}
		times[i] = time.Since(start)
	}
	slices.Sort(times)
	b.out.RoundTrip = &RoundTrip{len(times), times[0], times[len(times)/2], times[len(times)-1]}
	return nil
}

func (b *prober) null(ctx context.Context, program, version uint32) error {
	ctx, cancel := b.step(ctx)
	defer cancel()
	return b.conn.Null(ctx, program, version)
}

// exports asks the server's MOUNT service for its export list, and finds out the flavors of the exports and which of them
// NFS version 4 has by the same name.
func (b *prober) exports(ctx context.Context) ([]Export, error) {
	listed, err := b.listExports(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]Export, len(listed))
	for i, e := range listed {
		all[i].Export = e
	}
	asked := all[:min(len(all), maxAsked)]
	b.flavors(ctx, asked)
	b.names4(ctx, asked)
	return all, nil
}

func (b *prober) listExports(ctx context.Context) ([]client.Export, error) {
	ctx, cancel := b.step(ctx)
	defer cancel()
	m, own, err := b.conn.DialMount(ctx, b.cfg.MountPort)
	if err != nil {
		return nil, err
	}
	if own {
		defer m.Close()
	}
	if m.Target().Transport == client.TCP {
		b.mountPort = m.Peer().Port()
	}
	all, err := m.Mount3().Exports(ctx)
	if _, refused := errors.AsType[*rpc.ReplyError](err); refused {
		return nil, errors.Join(client.ErrNoMount, err)
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
	{rpcbind.Program, "rpcbind"},
}
