//go:build interop

// Package krb5 tests rpc/gss/krb5 with MIT's library. Each side is initiator and acceptor in
// turn, with tickets of a real KDC. MIT's library runs in peer.py, through Debian's
// python3-gssapi.
package krb5
