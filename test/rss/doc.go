// Package rss measures the memory of the daemon in a process of its own: under load, compared
// with its limit on payload memory, and with idle connections. Its tests have the build tag
// interop; `make test-interop` runs them.
package rss
