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
	"github.com/nfsrdmad/nfsrdmad/rpc/gss/krb5"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A Flavor is a way for callers to prove their identity, as in mount's option sec=. Its
// value is the number in MOUNT's lists: an RPC flavor, or a number for a mechanism and a
// service of RPCSEC_GSS (RFC 2623 §4.3).
type Flavor uint32

// Flavors: none, AUTH_SYS, and Kerberos in three forms: krb5 authenticates the caller,
// krb5i also protects against changes, krb5p also encrypts.
const (
	None  Flavor = 0
	Sys   Flavor = 1
	Krb5  Flavor = 390003
	Krb5i Flavor = 390004
	Krb5p Flavor = 390005
)

// flavorNames are the names in mount's option sec=.
var flavorNames = map[Flavor]string{None: "none", Sys: "sys", Krb5: "krb5", Krb5i: "krb5i", Krb5p: "krb5p"}

// String returns the value of mount's option sec=.
func (f Flavor) String() string {
	if name := flavorNames[f]; name != "" {
		return name
	}
	return fmt.Sprintf("flavor %d", uint32(f))
}

// MarshalText implements encoding.TextMarshaler.
func (f Flavor) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. It reads the names of the Flavors above.
func (f *Flavor) UnmarshalText(text []byte) error {
	for flavor, name := range flavorNames {
		if name == string(text) {
			*f = flavor
			return nil
		}
	}
	return fmt.Errorf("client: %q is no flavor", text)
}

// ParseFlavor returns the Flavor that s names: "sys", "krb5", "krb5i" or "krb5p". It returns an
// error for any other text.
func ParseFlavor(s string) (f Flavor, err error) {
	if f.UnmarshalText([]byte(s)) != nil || f == None {
		return 0, fmt.Errorf("flavor %q is none of sys, krb5, krb5i, krb5p", s)
	}
	return f, nil
}

// service returns the RPCSEC_GSS service of a Kerberos flavor, and 0 for other flavors.
func (f Flavor) service() rpc.GSSService {
	if f < Krb5 || f > Krb5p {
		return 0
	}
	return rpc.GSSNone + rpc.GSSService(f-Krb5)
}

// flavorOf returns the Kerberos Flavor of an RPCSEC_GSS service.
func flavorOf(s rpc.GSSService) Flavor { return Krb5 + Flavor(s-rpc.GSSNone) }

// Security makes a Target's calls use RPCSEC_GSS. Several Targets may share it.
type Security struct {
	// Mechanism makes the contexts, with the client's credential.
	Mechanism gss.Mechanism
	// Service is the protection of the calls: authentication alone, integrity, or privacy.
	Service rpc.GSSService
	// Server is the server's name, as Mechanism.Initiate takes it. "" means nfs@ and the Target's
	// Host.
	Server string
	// Version is the version of NFS whose NULL procedure makes contexts; 0 means 3. If the server
	// does not support the version, the Conn uses the highest version that the server states.
	Version uint32
}

// A SecurityError means that no context could be made for a connection. Err is the cause. Remedy
// says what to do about it, or is "".
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

// Unwrap returns the cause.
func (e *SecurityError) Unwrap() error { return e.Err }

// A SecurityContext describes the context of a connection's calls.
type SecurityContext struct {
	Flavor Flavor `json:"flavor"`
	// Server and Client are the authenticated principals.
	Server string `json:"server"`
	Client string `json:"client"`
	// Expiry is the time at which the context ends; the Conn then makes another.
	Expiry time.Time `json:"expiry"`
	// EType is the encryption type, or "" if the mechanism has no name for it.
	EType string `json:"etype,omitempty"`
	// Ticket is the time to get the ticket from the KDC or the credential cache, and Made
	// the time of the exchange with the server.
	Ticket time.Duration `json:"ticket_ns"`
	Made   time.Duration `json:"made_ns"`
}

// secured is the state of a Conn with Target.Security.
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
	// A context is valid for all programs and versions, so it can be made with another version.
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

// remedy returns advice for the user after the Conn failed to make a context. usual is true if
// the user named no principal for the server, so that the Conn derived it from the host's name.
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
		return "Kerberos needs the server's name, and " + c.target.Host + " is an address: give the server's name, or its principal with --server-principal nfs@NAME"
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

// Secured returns the context of the calls. ok is false if the Target has no Security.
func (c *Conn) Secured() (s SecurityContext, ok bool) {
	if c.secured == nil {
		return SecurityContext{}, false
	}
	x := c.secured.client.Context()
	s = SecurityContext{
		Flavor: flavorOf(c.secured.service), Server: x.Principal(), Client: x.Own(), Expiry: x.Expiry(),
		Ticket: c.secured.ticket, Made: c.secured.made,
	}
	if k, ok := x.(interface{ EType() krb5.EType }); ok {
		s.EType = k.EType().String()
	}
	return s, true
}

// NoContext reports whether err means that no context could be made, for a new connection or in
// place of an expired context.
func NoContext(err error) bool {
	_, first := errors.AsType[*SecurityError](err)
	_, later := errors.AsType[*gss.Error](err)
	return first || later
}

// Refused reports whether err means that the server does not accept the flavor of a call.
func Refused(err error) bool {
	if re, ok := errors.AsType[*rpc.ReplyError](err); ok {
		return re.Denied && slices.Contains([]rpc.AuthStat{rpc.AuthTooWeak, rpc.AuthRejectedCred, rpc.AuthBadCred}, re.Auth)
	}
	return StatusOf(err) == nfs4wire.NFS4ErrWrongSec
}

// Kerberos says where a client's Kerberos credential is, and how the credential protects calls.
type Kerberos struct {
	// Flavor is Krb5, Krb5i or Krb5p.
	Flavor Flavor
	// Keytab is the path of a keytab. Principal is the client's principal in it; "" means
	// the first. Without Keytab, the credential and the principal come from the
	// environment's credential cache.
	Keytab, Principal string
	// Server is the server's principal, as in Security.Server.
	Server string
}

// Security returns the Security for a Target. It reads the keytab, if there is one, but
// asks no KDC; the first connection does.
func (k Kerberos) Security() (*Security, error) {
	s := &Security{Service: k.Flavor.service(), Server: k.Server}
	if s.Service == 0 {
		return nil, fmt.Errorf("client: %v is no flavor of Kerberos", k.Flavor)
	}
	var cfg krb5.Config
	var err error
	switch {
	case k.Keytab != "":
		cfg.Keytab, cfg.Principal = k.Keytab, k.Principal
		if cfg.Principal == "" {
			cfg.Principal, err = krb5.FirstPrincipal(k.Keytab)
		}
	case k.Principal != "":
		err = errors.New("a principal can be chosen only with a keytab: a credential cache has one principal")
	default:
		cfg.Cache, err = krb5.DefaultCache()
	}
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	s.Mechanism = krb5.New(cfg)
	return s, nil
}
