package probe

import (
	"context"
	"errors"
	"path"
	"strings"
	"time"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// Context describes the RPCSEC_GSS context that the probe made with the server.
type Context struct {
	client.SecurityContext
	// Null is the time of a NULL call of NFS under the context.
	Null time.Duration `json:"null_ns"`
}

// security finds out whether the server supports RPCSEC_GSS, and makes a context if
// Config.Security is set.
func (b *prober) security(ctx context.Context) {
	b.out.GSS = b.knowsGSS(ctx)
	if b.cfg.Security == nil {
		return
	}
	x, err := b.context(ctx)
	if err != nil {
		b.out.ContextFault = strings.TrimPrefix(err.Error(), "client: ")
		return
	}
	b.out.Context = x
}

// context makes a context over a new connection, b.secured.
func (b *prober) context(ctx context.Context) (*Context, error) {
	ctx, cancel := b.step(ctx)
	defer cancel()
	target := b.target
	target.Security = b.cfg.Security
	c, err := client.Dial(ctx, target)
	if err != nil {
		return nil, err
	}
	b.secured = c
	x := new(Context)
	x.SecurityContext, _ = c.Secured()
	start := time.Now()
	err = c.Null(ctx, nfs3wire.Program, b.version())
	x.Null = time.Since(start)
	return x, err
}

// version returns the lowest version of NFS that the server supports, or 3 if it supports none.
func (b *prober) version() uint32 {
	for _, p := range b.out.Programs {
		if p.Number == nfs3wire.Program && len(p.Versions) > 0 {
			return p.Versions[0]
		}
	}
	return nfs3wire.Version
}

// knowsGSS makes a call under a context that does not exist. A server that supports RPCSEC_GSS
// answers that it does not know the context (RFC 2203 §5.3.3.3); other servers refuse the flavor.
// The call carries no token, so it does not wait for a KDC.
func (b *prober) knowsGSS(ctx context.Context) bool {
	ctx, cancel := b.step(ctx)
	defer cancel()
	const version, data, number, none = 1, 0, 1, 1
	w := xdr.NewWriter(make([]byte, 0, 64))
	for _, v := range []uint32{version, data, number, none} {
		w.Uint32(v)
	}
	w.Opaque(make([]byte, 8)) // the context's handle
	err := rpc.Do(ctx, b.conn.Bare(), &rpc.Exchange{
		Program: nfs3wire.Program, Version: b.version(), Cred: rpc.AuthBytes{Flavor: rpc.AuthGSS, Body: w.Bytes()},
	}, nil)
	re, refused := errors.AsType[*rpc.ReplyError](err)
	return refused && re.Denied && (re.Auth == rpc.GSSCredProblem || re.Auth == rpc.GSSCtxProblem)
}

// maxAsked is the largest number of exports of which the probe finds out flavors and names, and for which it
// makes commands.
const maxAsked = 64

// flavors asks the server which flavors it accepts for the exports: by MNT if the server supports
// NFS version 3, otherwise by SECINFO. If that fails, an export's Flavors stay empty.
func (b *prober) flavors(ctx context.Context, all []Export) {
	if b.out.has(nfs3wire.Program, nfs3wire.Version) {
		b.mountFlavors(ctx, all)
		return
	}
	if b.out.NFS4 == nil || b.out.NFS4.Minor == 0 {
		return
	}
	ctx, cancel := b.step(ctx)
	defer cancel()
	s, err := b.session(ctx, b.out.NFS4.Minor)
	if err != nil {
		return
	}
	defer s.Close()
	for i := range all {
		all[i].Flavors = nameFlavors(ctx, s, all[i].Path)
	}
}

// mountFlavors asks for the flavors by MNT, and undoes each mount by UMNT.
func (b *prober) mountFlavors(ctx context.Context, all []Export) {
	ctx, cancel := b.step(ctx)
	defer cancel()
	m, own, err := b.conn.DialMount(ctx, b.cfg.MountPort)
	if err != nil {
		return
	}
	if own {
		defer m.Close()
	}
	mount := client.Mount3{Caller: m.Bare(), Cred: client.Self()}
	for i := range all {
		_, flavors, err := mount.Mount(ctx, all[i].Path)
		if err != nil {
			all[i].Refused = why(err)
			continue
		}
		_ = mount.Unmount(ctx, all[i].Path) // ignore an error: the server's list of mounts is only informative
		for _, f := range flavors {
			all[i].Flavors = append(all[i].Flavors, client.Flavor(f))
		}
	}
}

// rootFlavors returns the flavors of the server's root, or nil if the server does not tell them.
func rootFlavors(ctx context.Context, s *client.Session) []client.Flavor {
	style := wire.SecinfoStyle4CurrentFH
	return secinfo(ctx, s, []client.Op{{Number: wire.OpPutRootFH}}, client.Op{Number: wire.OpSecInfoNoName, Args: &style})
}

// nameFlavors returns the flavors of a path, or nil if the server does not tell them.
func nameFlavors(ctx context.Context, s *client.Session, name string) []client.Flavor {
	dir, base := path.Split(path.Clean("/" + name))
	if base == "" {
		return rootFlavors(ctx, s)
	}
	above, err := s.NFS4().Walk(ctx, nil, dir)
	if err != nil {
		return nil
	}
	return secinfo(ctx, s, []client.Op{{Number: wire.OpPutFH, Args: &wire.PutFH4Args{Object: wire.NFSFH4(above)}}},
		client.Op{Number: wire.OpSecInfo, Args: &wire.SecInfo4Args{Name: wire.UTF8String(base)}})
}

// secinfo sends a request that consists of the operations in the argument before and of ask, a
// SECINFO or SECINFO_NO_NAME. It returns the flavors in the result of ask, or nil if the request
// fails.
func secinfo(ctx context.Context, s *client.Session, before []client.Op, ask client.Op) (all []client.Flavor) {
	var res wire.SecInfo4Res
	ask.Res = &res
	err := s.Do(ctx, &client.Compound{Ops: append(before, ask)}, func() error {
		var one wire.Secinfo4
		for res.ResOK.Next(&one) {
			all = append(all, flavorOf(&one))
		}
		return nil
	})
	if err != nil {
		return nil
	}
	return all
}

// flavorOf returns the flavor that an element of SECINFO's list stands for.
func flavorOf(s *wire.Secinfo4) client.Flavor {
	if s.Flavor != wire.RPCSECGSS {
		return client.Flavor(s.Flavor)
	}
	if service := s.FlavorInfo.Service; strings.TrimPrefix(string(s.FlavorInfo.Oid), "\x06\x09") == kerberosOID && service >= 1 && service <= 3 {
		return client.Krb5 + client.Flavor(service-1)
	}
	return client.Flavor(s.Flavor)
}

// kerberosOID is the content of the DER encoding of 1.2.840.113554.1.2.2 (RFC 4121 §1). Some
// servers put the DER tag and length before it.
const kerberosOID = "\x2a\x86\x48\x86\xf7\x12\x01\x02\x02"

// joined returns the flavors in the form of mount's option sec=.
func joined(all []client.Flavor) string {
	names := make([]string, len(all))
	for i, f := range all {
		names[i] = f.String()
	}
	return strings.Join(names, ":")
}
