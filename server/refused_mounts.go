package server

import (
	"time"

	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/mount3"
)

// refusedMounts writes a line for a mount that is refused, so that the reason is
// found where it is looked for; a client that asks again and again makes few.
type refusedMounts struct {
	log   *zap.Logger
	lines clientLines
}

// refused is told of each.
func (m *refusedMounts) refused(r *mount3.Refusal) {
	client := r.Client.Addr().Unmap()
	leftOut, due := m.lines.due(client, time.Now())
	if !due {
		return
	}
	fields := []zap.Field{
		zap.Stringer("client", client), zap.Uint16("port", r.Client.Port()), zap.String("path", r.Path),
		zap.Stringer("reason", r.Reason), zap.Stringer("answer", r.Status),
	}
	if r.Export != nil {
		fields = append(fields, zap.String("export", r.Export.Name))
	}
	if leftOut > 0 {
		fields = append(fields, zap.Int("others_before", leftOut))
	}
	m.log.Warn("mount refused", fields...)
}
