package client

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/mount3wire"
)

// A MountError is a refusal of MNT (RFC 1813 §5.1.5).
type MountError struct {
	Path   string
	Status mount3wire.Stat3
}

func (e *MountError) Error() string { return fmt.Sprintf("client: mount %s: %v", e.Path, e.Status) }

// An Export is one line of what a server offers.
type Export struct {
	Path string `json:"path"`
	// Groups are who may mount it; none means everybody.
	Groups []string `json:"groups"`
}

// mountCall makes a call of MOUNT version 3 on a connection that leads to such a
// service.
func (c *Conn) mountCall(ctx context.Context, p mount3wire.Procedure, args func(w *xdr.Writer), maxArgs int, decode func(d *xdr.Decoder) error) error {
	return c.Call(ctx, &rpc.Exchange{
		Program: mount3wire.Program, Version: mount3wire.Version, Procedure: uint32(p),
		Binding: &nfs.BindingMount3.Procedures[p], Args: args, MaxArgs: maxArgs,
	}, decode)
}

// Mount gives the handle of an export's root, and which flavors it takes (RFC
// 1813 §5.2.1). c leads to the MOUNT service.
func (c *Conn) Mount(ctx context.Context, path string) (root Handle, flavors []rpc.Flavor, err error) {
	if len(path) > mount3wire.PathLen {
		return nil, nil, &MountError{path, mount3wire.ErrNameTooLong}
	}
	err = c.mountCall(ctx, mount3wire.ProcMnt, func(w *xdr.Writer) { w.String(path) }, mount3wire.DirPathMaxSize, func(d *xdr.Decoder) error {
		var res mount3wire.MountRes3
		res.Decode(d)
		switch {
		case d.Err() != nil:
			return fmt.Errorf("%w: MNT: %w", rpc.ErrBadReply, d.Err())
		case res.Status != mount3wire.OK:
			return &MountError{path, res.Status}
		}
		root = Handle(slices.Clone(res.ResOK.FileHandle))
		var flavor int32
		for res.ResOK.AuthFlavors.Next(&flavor) {
			flavors = append(flavors, rpc.Flavor(flavor))
		}
		return nil
	})
	return root, flavors, err
}

// Unmount tells the server that path is not used any more (RFC 1813 §5.2.3).
func (c *Conn) Unmount(ctx context.Context, path string) error {
	return c.mountCall(ctx, mount3wire.ProcUmnt, func(w *xdr.Writer) { w.String(path) }, mount3wire.DirPathMaxSize, nil)
}

// Exports lists what the server offers (RFC 1813 §5.2.5).
func (c *Conn) Exports(ctx context.Context) (all []Export, err error) {
	err = c.mountCall(ctx, mount3wire.ProcExport, nil, 0, func(d *xdr.Decoder) error {
		var list mount3wire.ExportList
		list.Decode(d)
		if d.Err() != nil {
			return fmt.Errorf("%w: EXPORT: %w", rpc.ErrBadReply, d.Err())
		}
		var e mount3wire.Export
		for list.Next(&e) {
			export := Export{Path: string(e.Dir), Groups: []string{}}
			var g mount3wire.Group
			for e.Groups.Next(&g) {
				export.Groups = append(export.Groups, string(g.Name))
			}
			all = append(all, export)
		}
		return nil
	})
	return all, err
}

// ErrNoMount: no MOUNT service was found for a server.
var ErrNoMount = errors.New("client: no MOUNT service found")

// DialMount connects to the MOUNT service that belongs to the server that c leads
// to: at port of TCP; where that is 0, on c itself, where rpcbind of the server
// says, or at NFS's TCP port, whichever answers first in this order. own is false
// where the connection is c.
func (c *Conn) DialMount(ctx context.Context, port int) (m *Conn, own bool, err error) {
	t := Target{Transport: TCP, Host: c.peer.Addr().String(), Port: port, Cred: c.target.Cred}
	if port != 0 {
		m, err = Dial(ctx, t)
		return m, true, err
	}
	null := func(m *Conn) error { return m.Null(ctx, mount3wire.Program, mount3wire.Version) }
	if err = null(c); err == nil {
		return c, false, nil
	}
	why := []error{fmt.Errorf("at %s: %w", c.target.Address(), err)}
	ports := []int{}
	if p, err := GetPort(ctx, t.Host, mount3wire.Program, mount3wire.Version); err != nil {
		why = append(why, err)
	} else {
		ports = append(ports, p)
	}
	if c.target.Transport == RDMA {
		ports = append(ports, PortNFS)
	}
	for _, t.Port = range ports {
		if m, err = Dial(ctx, t); err == nil {
			if err = null(m); err == nil {
				return m, true, nil
			}
			m.Close()
		}
		why = append(why, fmt.Errorf("at %s: %w", t.Address(), err))
	}
	return nil, false, fmt.Errorf("%w: %w", ErrNoMount, errors.Join(why...))
}

// MountRoot gives the handle of an export's root of the server that c leads to:
// see DialMount.
func (c *Conn) MountRoot(ctx context.Context, path string, port int) (Handle, error) {
	m, own, err := c.DialMount(ctx, port)
	if err != nil {
		return nil, err
	}
	if own {
		defer m.Close()
	}
	root, _, err := m.Mount(ctx, path)
	return root, err
}
