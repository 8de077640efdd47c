package main

import "testing"

// Errors are shown without the names of packages.
func TestErrorsInPlainWords(t *testing.T) {
	for text, want := range map[string]string{
		`client: not an address: "a" is not HOST:/export`:            `not an address: "a" is not HOST:/export`,
		"bench: connecting to a over tcp: client: lookup a: no host": "connecting to a over tcp: lookup a: no host",
		"mem: mapping an arena of 5 bytes: no memory":                "mapping an arena of 5 bytes: no memory",
		"cannot listen on tcp: address in use":                       "cannot listen on tcp: address in use",
		"/etc/nfsrdmad/nfsrdmad.toml:3: tcp: 5 is no list":           "/etc/nfsrdmad/nfsrdmad.toml:3: tcp: 5 is no list",
	} {
		if got := plain(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}
