// Package server is the composition root: it makes a running daemon from a configuration, and
// ends it again. Only this package combines listeners, programs, file systems and memory, and
// exports metrics; only it and server/exports log.
//
// Each kind of part has one registry: transports, programs and metrics here, and the settings and
// options of exports in server/config. Help texts, checks and their errors, doctor, metrics and
// the tables of docs/configuration.md and docs/running.md are generated from the entries.
//
// New checks a configuration and opens the directories and listeners that it names. Serve runs
// until its context ends, and then drains: it answers calls in progress, and acknowledged data is
// safe. Exports can change while Serve runs (Reload).
package server
