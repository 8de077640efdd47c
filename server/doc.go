// Package server is the composition root: it turns a configuration into a
// running daemon and back into nothing. Listeners, programs, file systems and
// memory are put together here and nowhere else; it is also the only room that
// logs and that exports metrics.
//
// What there is of a kind is named in one place each, its registry: settings (keys of
// the configuration), exportOptions, transports, softwareRNIC (the provider), programs
// and metrics. Help texts, checks and their errors, doctor, metrics and the tables of
// docs/configuration.md and docs/running.md are made of these entries.
//
// A Config comes from a strict TOML file, from flags, or from a Go program that
// embeds the server. New checks it and opens what it names, Serve runs until its
// context ends, and then drains: calls in progress are answered, and what was
// acknowledged is safe. Its exports can change while it runs (Reload).
package server
