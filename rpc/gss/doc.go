// Package gss is the security of RPCSEC_GSS version 1 (RFC 2203; RFC 5403 and 7861 for
// what it refuses of later versions): contexts made by a mechanism of the Generic
// Security Service (RFC 2743), and calls and replies that are authenticated, protected
// against change, or kept secret by them.
//
// Mechanism, Initiator and Context are the seam to the mechanisms; a Negotiator is a
// mechanism that takes several tokens. The one of Kerberos version 5 is the package krb5
// below.
//
// A Server is the rpc.Protection of the flavor: it verifies each call by its header's
// checksum before it looks at anything else, knows the sequence numbers that a context
// has used, takes the protection off arguments and puts it on results, where they lie.
// Contexts are made off the receiving goroutine, are bounded, and a share is each
// address's. A principal's numbers are asked for where its context is made, and again
// behind later calls.
//
// A Client is an rpc.Caller that protects the calls of another, and verifies the
// replies. It makes another context where the server does not know the one it had.
//
// Services: what is protected is never placed directly (RFC 8166 §8.2.2); the rpc
// package and the transports see to that by rpc.Overhead. Versions 2 and 3 of RPCSEC_GSS
// are refused, channel bindings with them.
package gss
