// Package config is the configuration of a daemon: a Config comes from a strict TOML file, from
// flags, or from a Go program that embeds the server.
//
// Each key is one entry of the registry settings, and each option of an export one entry of
// exportOptions. Flags, defaults, checks and the tables of docs/configuration.md are generated
// from the entries. An error names the file and line, or the flag, the cause and the remedy.
//
// The package opens nothing that it names. Besides the file it looks at the directories of
// exports, and at how much memory this process can have.
package config
