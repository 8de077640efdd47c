package server

import (
	"time"

	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
)

// refusedPrincipals writes a line for a caller without an account that an export refuses. A
// client that asks again and again makes few.
type refusedPrincipals struct {
	log   *zap.Logger
	lines clientLines
}

// refused is told of each call.
func (r *refusedPrincipals) refused(c *rpc.Conn, e *export.Export, principal string) {
	client := c.Peer.Addr().Unmap()
	leftOut, due := r.lines.due(client, time.Now())
	if !due {
		return
	}
	fields := []zap.Field{
		zap.Stringer("client", client), zap.String("export", e.Name), zap.String("principal", principal),
		zap.String("remedy", "make the user here, or name one for the principal with the key kerberos.principals, or take require_account out of the export's options"),
	}
	if leftOut > 0 {
		fields = append(fields, zap.Int("others_before", leftOut))
	}
	r.log.Warn("principal without an account refused", fields...)
}
