// Package byterange keeps the locked byte ranges of a file: which owner has locked which bytes,
// and which of them conflict with a new lock (RFC 8881 §18.10, RFC 1813 §6.1.4). An owner may be
// of any protocol.
//
// The package holds no lock: the caller guards a Table together with its Holders. It does not
// know files, clients, or waiters.
package byterange
