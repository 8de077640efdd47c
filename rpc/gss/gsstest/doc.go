// Package gsstest is a security mechanism for tests of RPCSEC_GSS: two ends that
// share a secret. It protects what it says it protects, it can take several tokens to
// make a context, and it fails on demand. Its sizes are no multiples of four where
// the seam allows that.
package gsstest
