// Package server is the composition root: it makes a running daemon from a configuration, and
// ends it again. Only this package combines listeners, programs, file systems and memory, and
// exports metrics; only it and server/exports log.
//
// Transports, programs and metrics each have a registry (a table of all of them) in this package.
// The settings and the options of exports have theirs in server/config, and the lines of the log in
// server/logline. Help texts, checks and their errors, doctor, metrics and the tables of
// docs/configuration.md and docs/running.md are generated from these tables.
//
// New checks a configuration and opens the directories and listeners that it names. Serve runs
// until its context ends, and then drains: it answers calls in progress, and closes the file
// systems. Exports can change while Serve runs (Reload).
package server
