package server

import (
	"fmt"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// panicked logs a bug of the server that ended a call. Package rpc reports each place in the code
// once, so that a peer that causes it repeatedly cannot fill the disk.
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
