// Package rss measures the memory of the daemon, as a process of its own: under load, compared
// with its ceiling, and for idle connections. Its tests have the build tag interop; `make
// test-interop` runs them.
package rss
