package rpcbind

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// Program is rpcbind's program number (RFC 1833 §2.1).
const Program = 100000

// Port is the port of rpcbind (RFC 1833 §2.1).
const Port = 111

// The addresses of this machine's rpcbind. If a process registers over the Unix socket, rpcbind can
// see which user it runs as.
const (
	LocalSocket  = "/run/rpcbind.sock"
	LocalAddress = "127.0.0.1:111"
)

// Versions (RFC 1833 §2, §3). Version 2 is the port mapper.
const (
	version2 = 2
	version3 = 3
	version4 = 4
)

// Procedures (RFC 1833 §2.1, §3.1).
const (
	procNull    = 0
	procSet     = 1
	procUnset   = 2
	procGetAddr = 3
	procGetPort = 3 // GETPORT, in version 2
	procDump    = 4
	procGetTime = 6
)

// protocolTCP is the protocol number of TCP in calls of version 2 (RFC 1833 §3.1).
const protocolTCP = 6

// maxString is the longest string of a mapping, in bytes. The protocol itself has no limit.
const maxString = 1024

// maxMapping is the largest encoding of a mapping, in bytes.
const maxMapping = 8 + 3*(4+maxString)

// maxMappings is the largest number of mappings that Dump accepts.
const maxMappings = 4096

// Errors of a Client, besides those of its Dialer and *rpc.ReplyError.
var (
	// ErrTaken means that rpcbind refuses to register the service, because it is already
	// registered, usually by another owner.
	ErrTaken = errors.New("rpcbind: another owner has registered the service")
	// ErrElsewhere means that rpcbind has the address of another server for the service, and that
	// this other server answers.
	ErrElsewhere = errors.New("rpcbind: another server is registered for the service, and answers")
	// ErrNotRegistered means that rpcbind has no registration of the service.
	ErrNotRegistered = errors.New("rpcbind: no such service is registered")
)

// A Mapping is the address of one version of a program.
type Mapping struct {
	Program, Version uint32
	Netid            string
	Address          netip.AddrPort
	// Owner is the name of the user that registered the service.
	Owner string
}

// A Client talks to one rpcbind. Each call opens a connection and closes it.
type Client struct {
	// Dial connects to rpcbind. It must be set.
	Dial rpc.Dialer
	// Network and Address are the address of rpcbind. If they are empty, it is this machine's:
	// LocalSocket or, failing that, LocalAddress.
	Network, Address string
	// Owner is the name to register under. rpcbind may replace it by the user that it sees on the
	// Unix socket.
	Owner string
}

// Register registers each mapping in all, and replaces registrations that an earlier process left.
// If rpcbind has another address for a service, Register passes that registration to serves. If
// serves returns true, because a server answers at that address, Register leaves the registration
// and returns ErrElsewhere. After an error, Register continues with the other mappings.
func (c *Client) Register(ctx context.Context, all []Mapping, serves func(context.Context, Mapping) bool) error {
	return c.compare(ctx, all, func(s *session, m, known *Mapping) error {
		if known != nil {
			switch {
			case known.Address == m.Address:
				return nil
			case serves(ctx, *known):
				return fmt.Errorf("%w: %v", ErrElsewhere, known.Address)
			}
			if err := s.unset(ctx, m); err != nil {
				return err
			}
		}
		return s.change(ctx, procSet, m, UniversalAddress(m.Address))
	})
}

// Unregister removes the registration of each mapping in all. It leaves a registration that has
// another address, or at whose address a server still answers (serves returns true), because that
// registration belongs to another server.
func (c *Client) Unregister(ctx context.Context, all []Mapping, serves func(context.Context, Mapping) bool) error {
	return c.compare(ctx, all, func(s *session, m, known *Mapping) error {
		if known == nil || known.Address != m.Address || serves(ctx, *known) {
			return nil
		}
		return s.unset(ctx, m)
	})
}

// compare calls do for each mapping in all: m is that mapping, and known is the one that rpcbind
// has registered for the same program, version and netid, or nil if it has none. compare returns
// the errors of all calls of do.
func (c *Client) compare(ctx context.Context, all []Mapping, do func(s *session, m, known *Mapping) error) error {
	return c.session(ctx, func(s *session) error {
		registered, err := s.dump(ctx)
		if err != nil {
			return err
		}
		var errs []error
		for _, m := range all {
			var known *Mapping
			if i := slices.IndexFunc(registered, func(r Mapping) bool {
				return r.Program == m.Program && r.Version == m.Version && r.Netid == m.Netid
			}); i >= 0 {
				known = &registered[i]
			}
			m.Owner = cmp.Or(m.Owner, c.Owner)
			if err := do(s, &m, known); err != nil {
				errs = append(errs, fmt.Errorf("program %d version %d on %s: %w", m.Program, m.Version, m.Netid, err))
			}
		}
		return errors.Join(errs...)
	})
}

// GetAddr returns the address of a service. rpcbind chooses an address in the network from which
// the call came (RFC 1833 §2.2.1). If rpcbind has only version 2, GetAddr works for TCP over IPv4
// alone, and only the port of the result is valid. The error for an unregistered service is
// ErrNotRegistered.
func (c *Client) GetAddr(ctx context.Context, program, version uint32, netid string) (a netip.AddrPort, err error) {
	err = c.session(ctx, func(s *session) error {
		a, err = s.getAddr(ctx, &Mapping{Program: program, Version: version, Netid: netid, Owner: c.Owner})
		if re, ok := errors.AsType[*rpc.ReplyError](err); ok && re.Stat == rpc.AcceptProgMismatch && re.High == version2 && netid == TCP {
			a, err = s.getPort(ctx, program, version)
		}
		return err
	})
	return a, err
}

func (s *session) getAddr(ctx context.Context, m *Mapping) (a netip.AddrPort, err error) {
	var text string
	err = s.call(ctx, procGetAddr, func(w *xdr.Writer) { putMapping(w, m, "") }, func(d *xdr.Decoder) error {
		text = string(d.Opaque(maxString))
		return d.Finish()
	})
	switch {
	case err != nil:
		return a, err
	case text == "":
		return a, ErrNotRegistered
	}
	return ParseUniversalAddress(text)
}

// getPort calls GETPORT of version 2 (RFC 1833 §3.2) for TCP.
func (s *session) getPort(ctx context.Context, program, version uint32) (a netip.AddrPort, err error) {
	var port uint32
	err = rpc.Do(ctx, s, &rpc.Exchange{
		Program: Program, Version: version2, Procedure: procGetPort, MaxArgs: 4 * 4, MaxResults: 4,
		Args: func(w *xdr.Writer) {
			for _, v := range [...]uint32{program, version, protocolTCP, 0} {
				w.Uint32(v)
			}
		},
	}, func(d *xdr.Decoder) error {
		port = d.Uint32()
		return d.Finish()
	})
	switch {
	case err != nil:
		return a, err
	case port == 0 || port > math.MaxUint16:
		return a, ErrNotRegistered
	}
	return netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(port)), nil
}

// Dump returns all registrations. If an address is not an Internet address, the Address of its
// mapping is zero.
func (c *Client) Dump(ctx context.Context) (all []Mapping, err error) {
	err = c.session(ctx, func(s *session) error {
		all, err = s.dump(ctx)
		return err
	})
	return all, err
}

func (s *session) dump(ctx context.Context) (all []Mapping, err error) {
	err = s.call(ctx, procDump, nil, func(d *xdr.Decoder) error {
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
	return all, err
}

// A session is a connection to rpcbind, with the protocol version to use.
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

// call makes one call: in version 4, or in version 3 if rpcbind does not know version 4.
func (s *session) call(ctx context.Context, proc uint32, args func(*xdr.Writer), results func(*xdr.Decoder) error) error {
	for {
		err := rpc.Do(ctx, s, &rpc.Exchange{
			Program: Program, Version: s.version, Procedure: proc,
			Args: args, MaxArgs: maxMapping, MaxResults: 1 << 20,
		}, results)
		var re *rpc.ReplyError
		if s.version == version4 && errors.As(err, &re) && re.Stat == rpc.AcceptProgMismatch {
			s.version = version3
			continue
		}
		return err
	}
}

// change calls SET or UNSET. It returns ErrTaken if rpcbind refuses.
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

// unset removes a registration. It does not return ErrTaken, because rpcbind also refuses to remove
// a registration that does not exist. If another owner has registered the service, a following SET
// fails.
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
