// Package gsstest is a security mechanism for tests of RPCSEC_GSS. Its two ends share a
// secret. It really authenticates and encrypts, can need several tokens for a context,
// and fails on demand. Where gss.Context allows it, its sizes are not multiples of four.
package gsstest
