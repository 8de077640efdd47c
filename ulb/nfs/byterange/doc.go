// Package byterange keeps the locked byte ranges of a file: which owner has locked which
// bytes, and which of these locks conflict with a new lock (RFC 8881 §18.10, RFC 1813
// §6.1.4). The owners may use different protocols.
//
// The package uses no mutex. The caller must hold a mutex of its own while it uses a Table and
// its Holders. The package does not know files, clients, or waiters.
package byterange
