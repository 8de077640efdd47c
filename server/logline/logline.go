// Package logline has the lines of the daemon's log: the text of each, its level, and what an administrator
// should do about it. The table in docs/running.md is generated from it. Lines at the level debug are not
// part of it.
package logline

import (
	"iter"
	"slices"

	"go.uber.org/zap/zapcore"
)

// A Line is one line of the log.
type Line struct {
	Level zapcore.Level
	// Text is the message. It says what happened. The line's fields say to what.
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
