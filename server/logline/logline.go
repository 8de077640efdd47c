package logline

import (
	"iter"
	"slices"

	"go.uber.org/zap/zapcore"
)

// A Line is one line of the log.
type Line struct {
	Level zapcore.Level
	// Text is the message: the event that happened. The fields of the line name the client, the export or the file.
	Text string
	// Do says what to do about the line, and what its fields mean, in Markdown, for docs/running.md.
	Do string
}

var all []Line

// All returns all lines, in the order of the documentation.
func All() iter.Seq[Line] { return slices.Values(all) }

func info(text, do string) string  { return register(zapcore.InfoLevel, text, do) }
func warn(text, do string) string  { return register(zapcore.WarnLevel, text, do) }
func fault(text, do string) string { return register(zapcore.ErrorLevel, text, do) }

func register(level zapcore.Level, text, do string) string {
	all = append(all, Line{level, text, do})
	return text
}
