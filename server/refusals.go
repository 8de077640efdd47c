package server

import (
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss/krb5"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// Log lines about refused callers, so that an administrator finds the reason. Lower layers call
// these functions for each refusal.

// longestPath is the largest number of bytes of a client's path that a line shows.
const longestPath = 256

// remedies are the advice for refused mounts.
var remedies = map[export.Reason]string{
	export.NoExport:         "mount a path that `nfsrdmad probe` or `showmount -e` lists for this client, or add an export",
	export.NotAClient:       "add the address to the export's option clients=",
	export.UnprivilegedPort: "mount as root and without noresvport, or with Kerberos (sec=) where the export takes it, or give the export the option insecure",
	export.Stranger:         "add the address to the option clients= of an export",
}

// mountRefused writes a warning for a refused mount. If an NFSv4 client looks up a name that no
// export has, the level is only info, because users and programs often look for names that do not
// exist.
func (s *Server) mountRefused(r *export.Refusal) {
	client, level, text := r.Client.Addr().Unmap(), zapcore.WarnLevel, "mount refused"
	if _, v4 := r.Status.(nfs4wire.NFSStat4); v4 && r.Reason == export.NoExport {
		level, text = zapcore.InfoLevel, "name looked up that no export has"
	}
	s.lines.write(level, text, client, func() []zap.Field {
		path := r.Path
		if len(path) > longestPath {
			path = path[:longestPath] + "..."
		}
		fields := []zap.Field{
			zap.Stringer("client", client), zap.Uint16("port", r.Client.Port()), zap.String("path", path),
			zap.Stringer("reason", r.Reason), zap.Stringer("answer", r.Status),
		}
		if r.Export != nil {
			fields = append(fields, zap.String("export", r.Export.Name))
		}
		if remedy := remedies[r.Reason]; remedy != "" {
			fields = append(fields, zap.String("remedy", remedy))
		}
		return fields
	})
}

// flavorRefused writes a line for a caller whose security flavor the export does not accept. The
// level is info, because a client that tries one flavor after the other is refused at first. An
// export that refuses a flavor accepts at least one other, so taken[0] exists.
func (s *Server) flavorRefused(c *rpc.Conn, e *export.Export, as export.Security) {
	client := c.Peer.Addr().Unmap()
	s.lines.write(zapcore.InfoLevel, "flavor refused", client, func() []zap.Field {
		var taken []string
		for _, f := range e.SecurityFor(client) {
			taken = append(taken, f.String())
		}
		return []zap.Field{
			zap.Stringer("client", client), zap.String("export", e.Name), zap.Stringer("flavor", as), zap.String("sec", strings.Join(taken, ":")),
			zap.String("remedy", fmt.Sprintf("unless the client goes on by itself, mount with sec=%s, or add %s to the export's option sec", taken[0], as)),
		}
	})
}

// principalRefused writes a line for a caller without an account, if the export refuses such
// callers.
func (s *Server) principalRefused(c *rpc.Conn, e *export.Export, principal string) {
	client := c.Peer.Addr().Unmap()
	s.lines.write(zapcore.WarnLevel, "principal without an account refused", client, func() []zap.Field {
		return []zap.Field{
			zap.Stringer("client", client), zap.String("export", e.Name), zap.String("principal", principal),
			zap.String("remedy", "make the user here, or name one for the principal with the key kerberos.principals, or take require_account out of the export's options"),
		}
	})
}

// usualReasons are the reasons for which no line is written, because they are normal. After a
// restart of the server, for example, a client simply makes a new context.
var usualReasons = []gss.Reason{gss.UnknownHandle, gss.SeqExhausted, gss.Stale, gss.Replayed, gss.RefusedHandle, gss.Evicted}

// contextRefused logs that a Kerberos context or a call under one was refused. It is the callback
// gss.Config.Notify.
func (s *Server) contextRefused(e *gss.Event) {
	if slices.Contains(usualReasons, e.Reason) {
		return
	}
	client, level := e.Peer.Addr().Unmap(), zapcore.WarnLevel
	if e.Reason == gss.UnknownPrincipal && krb5.IsMachine(e.Principal) {
		level = zapcore.DebugLevel // the client's machine itself, when it mounts; it needs no user here
	}
	s.lines.write(level, "Kerberos: "+e.Reason.String(), client, func() []zap.Field {
		fields := []zap.Field{zap.Stringer("client", client), zap.Stringer("reason", e.Reason), zap.String("cause", e.Cause)}
		if e.Principal != "" {
			fields = append(fields, zap.String("principal", e.Principal))
		}
		if e.Remedy != "" {
			fields = append(fields, zap.String("remedy", e.Remedy))
		}
		return fields
	})
}
