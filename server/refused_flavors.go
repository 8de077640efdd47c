package server

import (
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
)

// refusedFlavors writes a line for a caller whose flavor its export does not take. It is
// no warning: a client that finds the flavors out by itself is refused once on its way.
type refusedFlavors struct {
	log   *zap.Logger
	lines clientLines
}

// refused is told of each call. The export has flavors for the client, or none was refused.
func (r *refusedFlavors) refused(c *rpc.Conn, e *export.Export, as export.Security) {
	client := c.Peer.Addr().Unmap()
	leftOut, due := r.lines.due(client, time.Now())
	if !due {
		return
	}
	var taken []string
	for _, s := range e.SecurityFor(client) {
		taken = append(taken, s.String())
	}
	all := strings.Join(taken, ":")
	fields := []zap.Field{
		zap.Stringer("client", client), zap.String("export", e.Name), zap.Stringer("flavor", as), zap.String("sec", all),
		zap.String("remedy", fmt.Sprintf("unless the client goes on by itself, mount with sec=%s, or add %s to the export's option sec", taken[0], as)),
	}
	if leftOut > 0 {
		fields = append(fields, zap.Int("others_before", leftOut))
	}
	r.log.Info("flavor refused", fields...)
}
