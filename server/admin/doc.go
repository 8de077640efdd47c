// Package admin is the administrator's way to a running daemon: HTTP over a Unix socket, and the client that the commands
// use. The socket answers only root and the daemon's own user.
//
// A Daemon answers; this package knows neither NFS nor the server. Every answer is JSON: an object, or an array that is
// written as the Daemon goes on, so that a long list takes no memory. A request that fails gets the HTTP status that fits
// and one line of plain text: what was asked, what happened, what to do.
//
// HTTP is used because net/http is there already (for metrics), curl and net/http/pprof speak it, and a request that waits
// ends when its caller goes.
package admin
