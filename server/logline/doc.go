// Package logline is the registry of the daemon's log: the text of each line, its level, and what an administrator
// should do about it. The table in docs/running.md is generated from it. Lines at the level debug are not part of it.
package logline
