package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A Flavor is a way in which a caller may prove who it is, as mount's option sec= names
// it: by its number in MOUNT's lists, an RPC flavor or one that stands for a mechanism and
// a service of RPCSEC_GSS (RFC 2623 §4.3).
type Flavor uint32

// Flavors: none, AUTH_SYS, and Kerberos that proves who calls, that protects against
// change, and that encrypts.
const (
	None  Flavor = 0
	Sys   Flavor = 1
	Krb5  Flavor = 390003
	Krb5i Flavor = 390004
	Krb5p Flavor = 390005
)

// flavorNames are what mount's option sec= calls them.
var flavorNames = map[Flavor]string{None: "none", Sys: "sys", Krb5: "krb5", Krb5i: "krb5i", Krb5p: "krb5p"}

// String is the name of mount's option.
func (f Flavor) String() string {
	if name := flavorNames[f]; name != "" {
		return name
	}
	return fmt.Sprintf("flavor %d", uint32(f))
}

// MarshalText implements encoding.TextMarshaler.
func (f Flavor) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText reads what MarshalText writes of the Flavors above.
func (f *Flavor) UnmarshalText(text []byte) error {
	for flavor, name := range flavorNames {
		if name == string(text) {
			*f = flavor
			return nil
		}
	}
	return fmt.Errorf("client: %q is no flavor", text)
}

// ParseFlavor reads "sys", "krb5", "krb5i" or "krb5p".
func ParseFlavor(s string) (Flavor, error) {
	for _, f := range []Flavor{Sys, Krb5, Krb5i, Krb5p} {
		if f.String() == s {
			return f, nil
		}
	}
	return 0, fmt.Errorf("flavor %q is none of sys, krb5, krb5i, krb5p", s)
}

// service is that of RPCSEC_GSS, 0 for flavors that are none of Kerberos.
func (f Flavor) service() rpc.GSSService {
	if f < Krb5 || f > Krb5p {
		return 0
	}
	return rpc.GSSNone + rpc.GSSService(f-Krb5)
}

// flavorOf is the Flavor of a service by Kerberos.
func flavorOf(s rpc.GSSService) Flavor { return Krb5 + Flavor(s-rpc.GSSNone) }

// Security has the calls of a Target made under RPCSEC_GSS. Several Targets may share it.
type Security struct {
	// Mechanism makes the contexts, with the caller's credential.
	Mechanism gss.Mechanism
	// Service protects the calls.
	Service rpc.GSSService
	// Server is the server's name, as Mechanism.Initiate takes it; "": nfs@ and
	// the Target's Host.
	Server string
	// Version is that of NFS by whose procedure NULL contexts are made (3, or the server's
	// own where it has no such version).
	Version uint32
}

// A SecurityError is a context that a connection was to have, and does not: what went
// wrong is in Err, and Remedy says what to do about it, or is "".
type SecurityError struct {
	Server, Remedy string
	Err            error
}

func (e *SecurityError) Error() string {
	text := strings.TrimPrefix(e.Err.Error(), "gss: ")
	if e.Remedy != "" {
		text += ": " + e.Remedy
	}
	return "client: " + text
}

// Unwrap is what went wrong.
func (e *SecurityError) Unwrap() error { return e.Err }

// A SecurityContext is what a connection's calls are made under.
type SecurityContext struct {
	Flavor Flavor
	// Server and Client are the principals, as they proved to be.
	Server, Client string
	// Expiry is when the context ends; another is made then.
	Expiry time.Time
	// EType is the encryption type, "" where the mechanism has no name for it.
	EType string
	// Ticket is how long it took to get what the context takes from the KDC or the credential
	// cache, and Made how long the exchange with the server.
	Ticket, Made time.Duration
}

// secured is what a Conn under a Security has.
type secured struct {
	client       *gss.Client
	service      rpc.GSSService
	ticket, made time.Duration
}

// secure makes a context for c's calls.
func (c *Conn) secure(ctx context.Context) error {
	s := c.target.Security
	cfg := gss.ClientConfig{
		Mechanism: s.Mechanism, Target: cmp.Or(s.Server, "nfs@"+c.target.Host), Service: s.Service,
		Program: nfs3wire.Program, Version: cmp.Or(s.Version, nfs3wire.Version),
	}
	g, err := c.initiate(ctx, cfg)
	// Any version will do: contexts are for all programs.
	if re, ok := errors.AsType[*rpc.ReplyError](err); ok && !re.Denied && re.Stat == rpc.AcceptProgMismatch && re.High != cfg.Version {
		cfg.Version = re.High
		g, err = c.initiate(ctx, cfg)
	}
	if err != nil {
		return &SecurityError{cfg.Target, c.remedy(err, s.Server == ""), err}
	}
	c.secured, c.caller = g, g.client
	return nil
}

func (c *Conn) initiate(ctx context.Context, cfg gss.ClientConfig) (*secured, error) {
	start := time.Now()
	p, err := gss.Prepare(ctx, cfg)
	if err != nil {
		return nil, err
	}
	prepared := time.Now()
	g, err := p.Client(ctx, c.bare)
	if err != nil {
		return nil, err
	}
	return &secured{g, cfg.Service, prepared.Sub(start), time.Since(prepared)}, nil
}

// remedy is what to do about a context that was not made; usual: the server's name is made
// of the host's.
func (c *Conn) remedy(err error, usual bool) string {
	if re, ok := errors.AsType[*rpc.ReplyError](err); ok {
		if re.Denied {
			return "the server does not know RPCSEC_GSS: set Kerberos up there, or use sec=sys"
		}
		return ""
	}
	e, ok := errors.AsType[*gss.Error](err)
	switch theirs := errors.Is(err, gss.ErrRefused); {
	case !ok:
	case !theirs && e.Major == gss.NoCredential && usual && isAddress(c.target.Host):
		return "keys are for names, and " + c.target.Host + " is an address: use the server's name, or name its principal"
	case !theirs:
	case e.Major == gss.CredentialsExpired:
		return "the ticket has ended, or the clocks of client and server differ: use kinit, set the clocks"
	case e.Major == gss.BadMech:
		return "the server takes another mechanism than Kerberos"
	default:
		return "most often the server's keytab has no key that fits the ticket: compare klist -ke there with kvno here"
	}
	return ""
}

func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

// Secured is what calls are made under: ok is false where that is no context.
func (c *Conn) Secured() (s SecurityContext, ok bool) {
	if c.secured == nil {
		return SecurityContext{}, false
	}
	x := c.secured.client.Context()
	s = SecurityContext{
		Flavor: flavorOf(c.secured.service), Server: x.Principal(), Client: x.Own(), Expiry: x.Expiry(),
		Ticket: c.secured.ticket, Made: c.secured.made,
	}
	if k, ok := x.(typed); ok {
		s.EType = k.EType().String()
	}
	return s, true
}

// NoContext says whether an error is about a context that could not be made, for a connection
// or in place of one that has ended.
func NoContext(err error) bool {
	_, first := errors.AsType[*SecurityError](err)
	_, later := errors.AsType[*gss.Error](err)
	return first || later
}

// Refused says whether the server answered that it does not take the flavor of a call
// here.
func Refused(err error) bool {
	if re, ok := errors.AsType[*rpc.ReplyError](err); ok {
		return re.Denied && slices.Contains([]rpc.AuthStat{rpc.AuthTooWeak, rpc.AuthRejectedCred, rpc.AuthBadCred}, re.Auth)
	}
	return StatusOf(err) == nfs4wire.NFS4ErrWrongSec
}
