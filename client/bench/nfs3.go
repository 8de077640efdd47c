package bench

import (
	"context"
	"fmt"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// nfs3 is the protocol of NFS version 3. The first connection makes the requests of the preparation.
type nfs3 struct {
	client.NFS3
	cfg   *Config
	conns []*client.Conn
}

func dial3(ctx context.Context, cfg *Config, connections int) (protocol, error) {
	n := &nfs3{cfg: cfg}
	for range connections {
		c, err := client.Dial(ctx, cfg.Target)
		if err != nil {
			n.abandon()
			return nil, err
		}
		n.conns = append(n.conns, c)
	}
	n.NFS3 = n.conns[0].NFS3()
	return n, nil
}

func (n *nfs3) end() error {
	n.abandon()
	return nil
}

func (n *nfs3) abandon() {
	for _, c := range n.conns {
		c.Close()
	}
	n.conns = nil
}

// atOnce adds up the credits over RDMA. Over TCP there is no limit.
func (n *nfs3) atOnce() int { return credits(n.conns, n.cfg.Depth*n.cfg.Connections) }

func (n *nfs3) rdma() (i rdma.Info, ok bool) {
	if len(n.conns) > 0 { // they were not abandoned
		i, ok = n.conns[0].Info()
	}
	return i, ok
}

// credits returns the number of calls that may be in progress on conns together, or most if there is
// no limit.
func credits(conns []*client.Conn, most int) int {
	sum := 0
	for _, c := range conns {
		i, ok := c.Info()
		if !ok {
			return most
		}
		sum += int(max(i.Granted, 1))
	}
	return sum
}

// mount also makes a GETATTR on each connection, because a server may allow only few calls at a time
// on a connection until a call on it has used a valid file handle.
func (n *nfs3) mount(ctx context.Context) (client.Handle, error) {
	root, err := n.conns[0].MountRoot(ctx, n.cfg.Export, n.cfg.MountPort)
	if err != nil {
		return nil, err
	}
	for _, c := range n.conns {
		if _, err := c.NFS3().Getattr(ctx, root); err != nil {
			return nil, err
		}
	}
	return root, nil
}

func (n *nfs3) limits(ctx context.Context, root client.Handle) (limits, error) {
	info, err := n.Fsinfo(ctx, root)
	return limits{
		read: int(min(info.ReadMax, client.MaxTransfer)), write: int(min(info.WriteMax, client.MaxTransfer)), list: client.MaxTransfer,
	}, err
}

func withMode(mode uint32) nfs3wire.Sattr3 {
	return nfs3wire.Sattr3{Mode: nfs3wire.SetMode3{SetIt: true, Mode: mode}}
}

func (n *nfs3) mkdir(ctx context.Context, dir client.Handle, name string) (client.Handle, error) {
	return n.Mkdir(ctx, dir, name, withMode(0o755))
}

// newFile has the attributes of the files that a bench makes.
var newFile = nfs3wire.CreateHow3{ObjAttributes: withMode(0o644)}

func (n *nfs3) create(ctx context.Context, dir client.Handle, name string) (file, error) {
	h, _, err := n.Create(ctx, dir, name, newFile)
	return file{handle: h}, err
}

func (n *nfs3) release(context.Context, file) error { return nil }

func (n *nfs3) write(ctx context.Context, f file, offset uint64, p []byte) (int, error) {
	w, err := n.Write(ctx, f.handle, offset, p, nfs3wire.Unstable)
	return w.Count, err
}

func (n *nfs3) commit(ctx context.Context, f file) error {
	_, err := n.Commit(ctx, f.handle, 0, 0)
	return err
}

func (n *nfs3) list(ctx context.Context, dir client.Handle) (names []string, err error) {
	for e, err := range n.Readdir(ctx, dir) {
		if err != nil {
			return nil, err
		}
		if e.Name != "." && e.Name != ".." {
			names = append(names, e.Name)
		}
	}
	return names, nil
}

func (n *nfs3) newSlot(b *bench, c *conn, number int) *slot {
	return &newSlot3(b, workloads[b.cfg.Workload], n.conns[c.number].Caller(), c, number).slot
}

// A slot3 is a slot for NFS version 3.
type slot3 struct {
	slot
	work   *workload
	caller rpc.Caller
	x      rpc.Exchange

	cookie uint64
	verf   nfs3wire.CookieVerf3

	// Results are decoded into these fields, so that a call allocates no memory.
	read nfs3wire.Read3Res
	list nfs3wire.ReaddirPlus3Res
	item nfs3wire.EntryPlus3
}

// maxSlotArgs is the largest size of any workload's arguments without payload, in bytes.
const maxSlotArgs = 2*nfs3wire.FileHandle3MaxSize + 256

func newSlot3(b *bench, work *workload, caller rpc.Caller, c *conn, number int) *slot3 {
	s := &slot3{work: work, caller: caller}
	s.slot = newSlot(b, c, number, s)
	s.x.Program, s.x.Version, s.x.Cred = nfs3wire.Program, nfs3wire.Version, b.cfg.Cred
	s.x.MaxArgs = maxSlotArgs
	s.x.Args = func(w *xdr.Writer) { s.work.args(s, w) }
	s.x.Done = func(*rpc.Exchange) { s.done() }
	if work.procedures[0] == nfs3wire.ProcRead {
		s.x.Sinks, s.x.Locate = s.sinks[:], client.LocateReadData
	}
	return s
}

func (s *slot3) send() {
	p := s.work.procedures[s.step]
	s.x.Procedure, s.x.Binding = uint32(p), &nfs.Binding3.Procedures[p]
	s.caller.Start(&s.x)
}

func (s *slot3) answer() (int, error) {
	if s.x.Err != nil {
		return 0, s.x.Err
	}
	return s.work.answer(s, &s.x.Results)
}

// status reads the status at the start of results.
func (s *slot3) status(d *xdr.Decoder) error { return s.outcome(d, nfs3wire.NFSStat3(d.Int32())) }

// outcome returns the error of a call whose results, with this status, were decoded from d.
func (s *slot3) outcome(d *xdr.Decoder, status nfs3wire.NFSStat3) error {
	switch {
	case d.Err() != nil:
		return fmt.Errorf("%w: %w", rpc.ErrBadReply, d.Err())
	case status != nfs3wire.NFS3OK:
		return &client.StatusError{Procedure: nfs3wire.Procedure(s.x.Procedure), Status: status}
	}
	return nil
}
