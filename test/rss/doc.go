// Package rss measures how much memory the daemon takes, as its own process:
// under load beside its ceiling, and for connections that are idle. Its tests
// have the build tag interop; `make test-interop` runs them.
package rss
