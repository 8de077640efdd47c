package bench

import (
	"context"

	"github.com/nfsrdmad/nfsrdmad/client"
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
