package client

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpcbind"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/transport/tcp"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/mount3wire"
)

// A MountError means that the server refused MNT (RFC 1813 §5.1.5).
type MountError struct {
	Path   string
	Status mount3wire.Stat3
}

func (e *MountError) Error() string { return fmt.Sprintf("client: mount %s: %v", e.Path, e.Status) }

// An Export is one line of a server's export list.
type Export struct {
	Path string `json:"path"`
	// Groups are the clients that may mount the export; an empty list means all clients.
	Groups []string `json:"groups"`
}

// Mount3 makes the calls of MOUNT version 3 (RFC 1813 §5) on a Caller that leads to a MOUNT
// service. Each method waits for its reply or for the end of its context. Methods may be called
// from any goroutine.
type Mount3 struct {
	Caller rpc.Caller
	// Cred goes with each call; the zero value is AUTH_NONE.
	Cred rpc.AuthBytes
}

func (m Mount3) call(ctx context.Context, p mount3wire.Procedure, args func(w *xdr.Writer), maxArgs int, decode func(d *xdr.Decoder) error) error {
	return rpc.Do(ctx, m.Caller, &rpc.Exchange{
		Program: mount3wire.Program, Version: mount3wire.Version, Procedure: uint32(p), Cred: m.Cred,
		Binding: &nfs.BindingMount3.Procedures[p], Args: args, MaxArgs: maxArgs,
	}, decode)
}

// Mount returns the handle of an export's root, and the security flavors that the export accepts
// (RFC 1813 §5.2.1). If the server refuses, the error is a *MountError.
func (m Mount3) Mount(ctx context.Context, path string) (root Handle, flavors []rpc.Flavor, err error) {
	if len(path) > mount3wire.PathLen {
		return nil, nil, &MountError{path, mount3wire.ErrNameTooLong}
	}
	err = m.call(ctx, mount3wire.ProcMnt, func(w *xdr.Writer) { w.String(path) }, mount3wire.DirPathMaxSize, func(d *xdr.Decoder) error {
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

// Unmount tells the server that the client no longer uses path (RFC 1813 §5.2.3).
func (m Mount3) Unmount(ctx context.Context, path string) error {
	return m.call(ctx, mount3wire.ProcUmnt, func(w *xdr.Writer) { w.String(path) }, mount3wire.DirPathMaxSize, nil)
}

// Exports returns the server's export list (RFC 1813 §5.2.5).
func (m Mount3) Exports(ctx context.Context) (all []Export, err error) {
	err = m.call(ctx, mount3wire.ProcExport, nil, 0, func(d *xdr.Decoder) error {
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

// ErrNoMount means that the server's MOUNT service was not found.
var ErrNoMount = errors.New("client: no MOUNT service found")

// DialMount connects to the MOUNT service of c's server. If port is not 0, it connects to that
// TCP port. Otherwise it tries c itself, then the TCP port that the server's rpcbind names and,
// if c is over RDMA, the TCP port of NFS; it takes the first that answers. own is false if the
// connection is c; otherwise the caller closes it. If none answers, the error wraps ErrNoMount.
func (c *Conn) DialMount(ctx context.Context, port int) (m *Conn, own bool, err error) {
	t := Target{Transport: TCP, Host: c.peer.Addr().String(), Port: port, Cred: c.target.Cred}
	if port != 0 {
		m, err = Dial(ctx, t)
		return m, true, err
	}
	null := func(m *Conn) error {
		return rpc.Do(ctx, m.bare, &rpc.Exchange{Program: mount3wire.Program, Version: mount3wire.Version, Cred: m.target.Cred}, nil)
	}
	if err = null(c); err == nil {
		return c, false, nil
	}
	why := []error{fmt.Errorf("at %s: %w", c.target.Address(), err)}
	ports := []int{}
	if p, err := mountPort(ctx, c.peer.Addr()); err != nil {
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

// mountPort asks the rpcbind of host for the TCP port of its MOUNT service.
func mountPort(ctx context.Context, host netip.Addr) (int, error) {
	b := rpcbind.Client{
		Dial: tcp.DialConfig{Dial: dialReserved}.Dialer(), Network: "tcp",
		Address: netip.AddrPortFrom(host, rpcbind.Port).String(),
	}
	at, err := b.GetAddr(ctx, mount3wire.Program, mount3wire.Version, rpcbind.Netid("tcp", host))
	if err != nil {
		return 0, fmt.Errorf("client: rpcbind of %s, asked for MOUNT over TCP: %w", host, err)
	}
	return int(at.Port()), nil
}

// MountRoot returns the handle of the root of an export of c's server. port has the same meaning as
// for DialMount. It tells the server at once that the export is no longer mounted (UMNT), because the
// server's list of mounts would name this client for ever otherwise; the handle stays valid.
func (c *Conn) MountRoot(ctx context.Context, path string, port int) (Handle, error) {
	m, own, err := c.DialMount(ctx, port)
	if err != nil {
		return nil, err
	}
	if own {
		defer m.Close()
	}
	root, _, err := m.Mount3().Mount(ctx, path)
	if err == nil {
		step, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_ = m.Mount3().Unmount(step, path) // the list is for administrators; nothing depends on it
	}
	return root, err
}
