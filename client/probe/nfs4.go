package probe

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// NFS4 is a server's description of itself, learned with NFS version 4 (RFC 8881 §2.5, §5.8.1.11).
type NFS4 struct {
	// Minor is the highest minor version that the server supports. The other fields are its
	// answers in this minor version.
	Minor uint32 `json:"minor_version"`
	// Lease is the lease time, in seconds: the server keeps the state of a client that makes no
	// requests for this time.
	Lease uint32 `json:"lease_seconds"`
	// The following fields are empty if the server has only minor version 0. Slots is the number of
	// requests of a session that the server serves at a time. Request and Response are the largest
	// sizes of a request and of a reply, in bytes.
	OwnerMajor     string `json:"owner_major,omitempty"`
	OwnerMinor     uint64 `json:"owner_minor"`
	Scope          string `json:"scope,omitempty"`
	Implementation string `json:"implementation,omitempty"`
	Slots          uint32 `json:"slots,omitempty"`
	Request        uint32 `json:"max_request,omitempty"`
	Response       uint32 `json:"max_response,omitempty"`
	// Flavors are the security flavors of the server's root, from SECINFO_NO_NAME (RFC 8881
	// §18.45).
	Flavors []client.Flavor `json:"flavors,omitempty"`
}

// nfs4 asks a server with NFS version 4 for its description. Unless the server has only minor
// version 0, it makes a session for that, and ends it.
func (b *prober) nfs4(ctx context.Context) {
	i := slices.IndexFunc(b.out.Programs, func(p Program) bool { return p.Number == nfs3wire.Program && len(p.Minor) > 0 })
	if i < 0 {
		return
	}
	found := &NFS4{Minor: slices.Max(b.out.Programs[i].Minor)}
	ask := b.session4
	if found.Minor == 0 {
		ask = b.lease4
	}
	if err := ask(ctx, found); err != nil {
		b.out.Notes = append(b.out.Notes, fmt.Sprintf("What the server says of itself by NFS version 4.%d is not known: %s", found.Minor, denial(err)))
		return
	}
	b.out.NFS4 = found
}

// session4 fills in found for a server with minor version 1 or later.
func (b *prober) session4(ctx context.Context, found *NFS4) error {
	ctx, cancel := b.step(ctx)
	defer cancel()
	s, err := b.session(ctx, found.Minor)
	if err != nil {
		return err
	}
	server, limits := s.Server(), s.Limits().ForeChanAttrs
	found.Lease = uint32(s.Lease().Seconds())
	found.OwnerMajor, found.OwnerMinor, found.Scope = readable(server.MajorID), server.MinorID, readable(server.Scope)
	found.Implementation = server.Implementation
	found.Slots, found.Request, found.Response = limits.Maxrequests, limits.Maxrequestsize, limits.Maxresponsesize
	found.Flavors = rootFlavors(ctx, s)
	return s.Close()
}

// session makes a session, with the highest minor version that the client knows and the server has.
func (b *prober) session(ctx context.Context, minor uint32) (*client.Session, error) {
	target := b.target
	if b.secured != nil {
		target.Security = b.cfg.Security
	}
	target.Cred = client.Self() // servers do not let AUTH_NONE callers look at their root
	return client.DialSession(ctx, client.SessionConfig{Target: target, Minor: min(minor, 2), Timeout: b.cfg.Timeout})
}

// lease4 asks a server that has only minor version 0 for its lease time.
func (b *prober) lease4(ctx context.Context, found *NFS4) error {
	ctx, cancel := b.step(ctx)
	defer cancel()
	args := wire.Getattr4Args{AttrRequest: wire.Bits(wire.Fattr4LeaseTime)}
	var res wire.Getattr4Res
	return b.conn.Compound(ctx, 0, []client.Op{
		{Number: wire.OpPutRootFH}, {Number: wire.OpGetattr, Args: &args, Res: &res},
	}, func() error {
		var attr client.Attributes4
		err := attr.Take(&res.ResOK.Attributes)
		found.Lease = attr.LeaseTime
		return err
	})
}

// readable returns b if it is a text, and its hexadecimal digits otherwise.
func readable(b []byte) string {
	s := string(b)
	if strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) || r == '\ufffd' }) {
		return fmt.Sprintf("%x", b)
	}
	return s
}

// print writes the description as lines of the report.
func (n *NFS4) print(line func(what, format string, args ...any)) {
	name := fmt.Sprintf("NFS version 4.%d", n.Minor)
	if n.Minor == 0 {
		line(name, "lease %d s", n.Lease)
		return
	}
	line(name, "lease %d s, %d slots, requests of %d bytes, replies of %d", n.Lease, n.Slots, n.Request, n.Response)
	if len(n.Flavors) > 0 {
		line("root", "sec=%s", joined(n.Flavors))
	}
	line("server owner", "%s, minor %d; scope %s", n.OwnerMajor, n.OwnerMinor, n.Scope)
	if n.Implementation != "" {
		line("implementation", "%s", n.Implementation)
	}
}
