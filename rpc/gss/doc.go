// Package gss implements RPCSEC_GSS version 1 (RFC 2203). A mechanism of the Generic Security
// Service (RFC 2743) makes security contexts. Calls and replies under a context are authenticated
// and, by choice of the client, protected against change or encrypted.
//
// Mechanism, Acceptor, Initiator and Context are the interfaces that a mechanism implements. Package
// krb5 is the mechanism of Kerberos version 5.
//
// A Server is the rpc.Protection of the flavor. It verifies the checksum of each call's header
// before it uses anything else of the call. It records which sequence numbers a context has used.
// It unwraps arguments and wraps results in place. It makes contexts on the executor's goroutines,
// because that takes long. It limits the number of contexts: in all, for each client address, and
// for each principal. It looks up a principal's user and group numbers when the principal makes a
// context, and again in the background when they are outdated.
//
// A Client is an rpc.Caller that protects the calls on another Caller, and verifies the replies. If
// the server no longer knows the context, the Client makes a new one.
//
// Arguments and results that are protected against change or encrypted never use direct data
// placement (RFC 8166 §8.2.2); rpc.Overhead.Wraps tells the rpc package so. A Server refuses
// versions 2 and 3 of RPCSEC_GSS (RFC 5403, RFC 7861), and so has no channel bindings.
package gss
