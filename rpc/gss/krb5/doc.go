// Package krb5 is the Kerberos version 5 mechanism of the Generic Security Service (RFC 4121, 4120)
// for RPCSEC_GSS: acceptor and initiator, with the encryption types of AES (RFC 3962, 8009).
//
// A Mechanism accepts contexts with the keys of a keytab and initiates them with a keytab or a
// credential cache. It uses the library github.com/jcmturner/gokrb5 to encode Kerberos's messages,
// to read keytabs and caches, and for the exchange with the KDC. This package implements the tokens
// of a context and all cryptography of the acceptor.
//
// An acceptor that authenticates itself gives each context a fresh key. So an attacker who repeats
// an AP-REQ gets a context that it cannot use. An acceptor that does not authenticate itself relies
// on the replay cache, which is in memory. After a restart, a repeated AP-REQ therefore makes the
// same keys again, as long as its time is within the allowed skew. So that the attacker cannot also
// repeat messages of the earlier context, each message to the acceptor must contain a handle that
// the server never uses for another context. In RPCSEC_GSS, each call does.
//
// The package does not implement encryption types before AES, tokens of version 1 (RFC 1964),
// DCE-style contexts, delegation, or user-to-user authentication.
package krb5
