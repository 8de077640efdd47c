// Package gss implements RPCSEC_GSS version 1 (RFC 2203; RFC 5403 and 7861 where it refuses later
// versions). A mechanism of the Generic Security Service (RFC 2743) makes contexts. Under a
// context, calls and replies are authenticated, protected against change, or encrypted.
//
// Mechanism, Initiator and Context are the interfaces to the mechanisms. A Negotiator is a
// mechanism that needs several tokens. Package krb5 is the mechanism of Kerberos version 5.
//
// A Server is the rpc.Protection of the flavor. It verifies each call by the checksum of its
// header before it uses anything else of the call. It remembers the sequence numbers that a
// context has used. It unwraps arguments and wraps results in place. It makes contexts on other
// goroutines than the receiving ones, bounds their number, and gives each address a share. It
// looks up a principal's user and group numbers when the principal makes a context, and again in
// the background of later calls.
//
// A Client is an rpc.Caller that protects the calls on another Caller, and verifies the replies.
// If the server no longer knows its context, it makes a new one.
//
// Protected data is never placed directly (RFC 8166 §8.2.2): rpc.Overhead tells the rpc package
// and the transports which data that is. Versions 2 and 3 of RPCSEC_GSS, and so channel bindings,
// are refused.
package gss
