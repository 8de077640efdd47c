package server

import (
	"fmt"
	"os"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// newLog makes a logger to standard error. Under systemd the lines have no time, because the
// journal adds it.
func newLog(level, format string) *zap.Logger {
	l, err := zapcore.ParseLevel(level)
	if err != nil {
		l = zapcore.InfoLevel
	}
	c := zap.NewProductionEncoderConfig()
	c.EncodeTime = zapcore.ISO8601TimeEncoder
	c.EncodeDuration = zapcore.StringDurationEncoder
	if os.Getenv("JOURNAL_STREAM") != "" {
		c.TimeKey = zapcore.OmitKey
	}
	enc := zapcore.NewConsoleEncoder(c)
	if format == "json" {
		enc = zapcore.NewJSONEncoder(c)
	}
	return zap.New(zapcore.NewCore(enc, zapcore.Lock(os.Stderr), l))
}

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
