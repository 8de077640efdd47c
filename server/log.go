package server

import (
	"os"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/nfsrdmad/nfsrdmad/server/config"
)

// newLog makes a logger to standard error. Under systemd the lines have no time, because the
// journal adds it.
func newLog(level, format config.Choice) *zap.Logger {
	l, err := zapcore.ParseLevel(string(level))
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
