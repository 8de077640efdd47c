package rpcbind

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// Program is rpcbind's program number (RFC 1833 §2.1).
const Program = 100000

// Port is where rpcbind listens (RFC 1833 §2.1).
const Port = 111

// Where the rpcbind of this machine is found. By the socket it sees which user registers.
const (
	LocalSocket  = "/run/rpcbind.sock"
	LocalAddress = "127.0.0.1:111"
)

// Versions spoken, the better one first.
const (
	version4 = 4
	version3 = 3
)

// Procedures, of both versions (RFC 1833 §2.1).
const (
	procSet     = 1
	procUnset   = 2
	procGetAddr = 3
	procDump    = 4
)

// maxString bounds the strings of a mapping, in bytes. The protocol does not.
const maxString = 1024

// maxMappings bounds a Dump.
const maxMappings = 4096

// Errors of a Client, besides those of its Dialer and *rpc.ReplyError.
var (
	// ErrTaken: another program has registered the service.
	ErrTaken = errors.New("rpcbind: the service is registered by another program")
	// ErrNotRegistered: rpcbind knows no such service.
	ErrNotRegistered = errors.New("rpcbind: no such service is registered")
)

// A Mapping says where a version of a program is served.
type Mapping struct {
	Program, Version uint32
	Netid            string
	Address          netip.AddrPort
	// Owner is the user that registered, by name.
	Owner string
}

// A Client talks to one rpcbind. Each call opens a connection and closes it.
type Client struct {
	// Dial connects. Required.
	Dial rpc.Dialer
	// Network and Address say where rpcbind is; empty: this machine's, by
	// LocalSocket or else LocalAddress.
	Network, Address string
	// Owner is the name to register under. rpcbind may put what it knows in
	// its place.
	Owner string
}

// Set registers m. Where the service is registered already, it fails with
// ErrTaken: Unset first.
func (c *Client) Set(ctx context.Context, m Mapping) error {
	if m.Owner == "" {
		m.Owner = c.Owner
	}
	return c.session(ctx, func(s *session) error {
		return s.change(ctx, procSet, &m, UniversalAddress(m.Address))
	})
}

// Unset takes the registration of m's program, version and netid back; an empty
// netid stands for all. That there is none is no error.
func (c *Client) Unset(ctx context.Context, m Mapping) error {
	if m.Owner == "" {
		m.Owner = c.Owner
	}
	return c.session(ctx, func(s *session) error { return s.unset(ctx, &m) })
}

// Register makes what is registered for each of the services just what is in all,
// whatever an earlier process left behind: everything is unset before it is set.
// What could be registered stays so where others fail.
func (c *Client) Register(ctx context.Context, all []Mapping) error {
	return c.session(ctx, func(s *session) error {
		var errs []error
		for i := range all {
			m := all[i]
			if m.Owner == "" {
				m.Owner = c.Owner
			}
			if err := s.unset(ctx, &m); err != nil {
				errs = append(errs, m.wrap(err))
				continue
			}
			if err := s.change(ctx, procSet, &m, UniversalAddress(m.Address)); err != nil {
				errs = append(errs, m.wrap(err))
			}
		}
		return errors.Join(errs...)
	})
}

// Unregister takes the registrations of all back.
func (c *Client) Unregister(ctx context.Context, all []Mapping) error {
	return c.session(ctx, func(s *session) error {
		var errs []error
		for i := range all {
			m := all[i]
			if m.Owner == "" {
				m.Owner = c.Owner
			}
			if err := s.unset(ctx, &m); err != nil {
				errs = append(errs, m.wrap(err))
			}
		}
		return errors.Join(errs...)
	})
}

func (m *Mapping) wrap(err error) error {
	return fmt.Errorf("program %d version %d on %s: %w", m.Program, m.Version, m.Netid, err)
}

// GetAddr asks where a service is, by rpcbind's own view of the network that the
// question came by (RFC 1833 §2.2.1).
func (c *Client) GetAddr(ctx context.Context, program, version uint32, netid string) (a netip.AddrPort, err error) {
	err = c.session(ctx, func(s *session) error {
		var text string
		err := s.call(ctx, procGetAddr, func(w *xdr.Writer) {
			putMapping(w, &Mapping{Program: program, Version: version, Netid: netid, Owner: c.Owner}, "")
		}, func(d *xdr.Decoder) error {
			text = string(d.Opaque(maxString))
			return d.Finish()
		})
		if err != nil {
			return err
		}
		if text == "" {
			return ErrNotRegistered
		}
		a, err = ParseUniversalAddress(text)
		return err
	})
	return a, err
}

// Dump lists what is registered. Mappings whose addresses are not of the Internet
// have none.
func (c *Client) Dump(ctx context.Context) (all []Mapping, err error) {
	err = c.session(ctx, func(s *session) error {
		return s.call(ctx, procDump, nil, func(d *xdr.Decoder) error {
			all = nil
			for d.Bool() {
				if len(all) == maxMappings {
					return errors.New("rpcbind: more mappings than can be")
				}
				m := Mapping{Program: d.Uint32(), Version: d.Uint32(), Netid: string(d.Opaque(maxString))}
				m.Address, _ = ParseUniversalAddress(string(d.Opaque(maxString)))
				m.Owner = string(d.Opaque(maxString))
				if d.Err() == nil {
					all = append(all, m)
				}
			}
			return d.Finish()
		})
	})
	return all, err
}

// session is a connection to rpcbind and the version that it speaks.
type session struct {
	rpc.Client
	version uint32
}

func (c *Client) session(ctx context.Context, do func(*session) error) error {
	k, err := c.connect(ctx)
	if err != nil {
		return fmt.Errorf("rpcbind: %w", err)
	}
	defer k.Close()
	return do(&session{Client: k, version: version4})
}

func (c *Client) connect(ctx context.Context) (rpc.Client, error) {
	if c.Address != "" {
		return c.Dial(ctx, c.Network, c.Address)
	}
	k, err := c.Dial(ctx, "unix", LocalSocket)
	if err == nil {
		return k, nil
	}
	k, err2 := c.Dial(ctx, "tcp", LocalAddress)
	if err2 != nil {
		return nil, errors.Join(err, err2)
	}
	return k, nil
}

// call makes one call, in version 3 where rpcbind does not know version 4.
func (s *session) call(ctx context.Context, proc uint32, args func(*xdr.Writer), results func(*xdr.Decoder) error) error {
	for {
		err := rpc.Do(ctx, s, &rpc.Exchange{
			Program: Program, Version: s.version, Procedure: proc,
			Args: args, MaxArgs: 8 + 3*(4+maxString), MaxResults: 1 << 20,
		}, results)
		var re *rpc.ReplyError
		if s.version == version4 && errors.As(err, &re) && re.Stat == rpc.AcceptProgMismatch {
			s.version = version3
			continue
		}
		return err
	}
}

// change is SET or UNSET.
func (s *session) change(ctx context.Context, proc uint32, m *Mapping, address string) error {
	done := false
	err := s.call(ctx, proc, func(w *xdr.Writer) { putMapping(w, m, address) }, func(d *xdr.Decoder) error {
		done = d.Bool()
		return d.Finish()
	})
	if err == nil && !done {
		err = ErrTaken
	}
	return err
}

// unset answers ErrTaken for nothing, but that is what rpcbind says of what is
// not registered too; whether another program holds it, SET will tell.
func (s *session) unset(ctx context.Context, m *Mapping) error {
	if err := s.change(ctx, procUnset, m, ""); err != ErrTaken {
		return err
	}
	return nil
}

func putMapping(w *xdr.Writer, m *Mapping, address string) {
	w.Uint32(m.Program)
	w.Uint32(m.Version)
	for _, s := range [...]string{m.Netid, address, m.Owner} {
		w.BoundedOpaque([]byte(s), maxString)
	}
}
