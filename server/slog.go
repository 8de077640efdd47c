package server

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// SlogLogger returns a logger that writes to h, for HandlerOptions.Log and FileSystemOptions.Log. The lines of
// docs/running.md have the same texts, and the same fields, in the same order. h decides which levels it takes.
func SlogLogger(h slog.Handler) *zap.Logger { return zap.New(slogCore{h}) }

// A slogCore is a zapcore.Core over a slog.Handler.
type slogCore struct{ to slog.Handler }

func slogLevel(l zapcore.Level) slog.Level {
	return slog.LevelInfo + slog.Level(l-zapcore.InfoLevel)*(slog.LevelWarn-slog.LevelInfo)
}

// Enabled implements zapcore.LevelEnabler.
func (c slogCore) Enabled(l zapcore.Level) bool {
	return c.to.Enabled(context.Background(), slogLevel(l))
}

// With implements zapcore.Core.
func (c slogCore) With(fields []zapcore.Field) zapcore.Core {
	return slogCore{c.to.WithAttrs(slogAttrs(fields))}
}

// Check implements zapcore.Core.
func (c slogCore) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		to = to.AddCore(e, c)
	}
	return to
}

// Write implements zapcore.Core.
func (c slogCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	r := slog.NewRecord(e.Time, slogLevel(e.Level), e.Message, 0)
	r.AddAttrs(slogAttrs(fields)...)
	if e.Stack != "" {
		r.AddAttrs(slog.String("stack", e.Stack))
	}
	return c.to.Handle(context.Background(), r)
}

// Sync implements zapcore.Core. A slog.Handler keeps no lines.
func (slogCore) Sync() error { return nil }

// slogAttrs encodes each field by itself, because the encoder of zap keeps no order.
func slogAttrs(fields []zapcore.Field) []slog.Attr {
	all := make([]slog.Attr, 0, len(fields))
	for _, f := range fields {
		encoded := zapcore.NewMapObjectEncoder()
		f.AddTo(encoded)
		for _, name := range slices.Sorted(maps.Keys(encoded.Fields)) {
			all = append(all, slog.Any(name, encoded.Fields[name]))
		}
	}
	return all
}
