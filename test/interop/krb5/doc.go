//go:build interop

// Package krb5 tests rpc/gss/krb5 against MIT's library: contexts in both directions with tickets
// of a real KDC, and tokens both ways. The library runs in peer.py, through Debian's
// python3-gssapi.
package krb5
