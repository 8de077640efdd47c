package server

import (
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/server/logline"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
)

// callTookLong writes a log line about a call that took longer than the key slow_call. It is the callback
// rpc.Config.TookLong. The lines of each client are limited in number.
func (s *Server) callTookLong(d *rpc.Delay) {
	waited := waitsFor(d.Stage, d.Wait)
	fields := []zap.Field{
		zap.Stringer("client", d.Conn.Peer), zap.String("transport", d.Conn.Transport), zap.String("program", programName(d.Program)),
		zap.Uint32("version", d.Version), zap.String("operation", d.Name), zap.Duration("took", d.Took.Round(time.Millisecond)),
		zap.String("waited_for", waited), zap.Duration("waited", d.Longest.Round(time.Millisecond)),
	}
	if o, ok := d.Subject.(*export.Opened); ok && o != nil {
		fields = append(fields, zap.String("export", o.Export.Name))
	}
	s.lines.writeAbout(zapcore.WarnLevel, logline.SlowCall, d.Conn.Peer.Addr(), logline.SlowCall+waited, fields...)
}
