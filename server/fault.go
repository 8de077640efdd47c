package server

import (
	"fmt"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// panicked logs a fault of ours that ended a call. rpc tells each place once, so
// that a peer which provokes it again and again fills no disk.
func (s *Server) panicked(p *rpc.Panic) {
	line := s.log.Check(zapcore.ErrorLevel, "a call ended in a fault of the server: please report this line and its stack")
	if line == nil {
		return
	}
	line.Stack = string(p.Stack)
	line.Write(
		zap.String("program", programName(p.Program)), zap.String("procedure", p.Procedure),
		zap.String("fault", fmt.Sprint(p.Value)))
}
