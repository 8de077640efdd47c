// Package gsstest is a security mechanism for tests of RPCSEC_GSS. Initiator and acceptor share a
// secret. The mechanism really authenticates and encrypts. It can need several tokens for a
// context, and a test can make it fail. Where gss.Context allows it, the sizes of its tokens are
// not multiples of four.
package gsstest
