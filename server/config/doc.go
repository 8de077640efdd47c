// Package config is the configuration of a daemon: a Config comes from a strict TOML file, from
// flags, or from a Go program that embeds the server.
//
// The variable settings has one entry for each key, and exportOptions one for each option of an
// export. Flags, defaults, checks and the tables of docs/configuration.md are generated from the
// entries. An error names the file and line, or the flag, the cause and the remedy.
//
// The package reads the configuration file, and the files in the form of /etc/exports that flags name,
// whose host names it looks up. It reads from the kernel how much memory this process can have. It does
// not look at the directories of exports.
package config
