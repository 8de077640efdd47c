// Package krb5 is the Kerberos version 5 mechanism of the Generic Security Service
// (RFC 4121, 4120) for RPCSEC_GSS: acceptor and initiator, with the encryption types
// of AES (RFC 3962, 8009).
//
// A Mechanism accepts contexts with the keys of a keytab and initiates them with a
// keytab or a credential cache. The messages of Kerberos, keytabs, caches and the
// exchange with the KDC are github.com/jcmturner/gokrb5's; the tokens of a context and
// all cryptography of the acceptor are this package's.
//
// An acceptor that authenticates itself gives each context a fresh key of its own, so that
// an AP-REQ which is sent a second time makes a context that its sender cannot use. An
// acceptor that does not authenticate itself has only the replay cache, which lives in
// memory: after a restart, a repeated AP-REQ makes the same keys again for as long as the
// clocks may differ. What is protected by the context must then name the context by a
// handle that is never used twice.
//
// The package does not know encryption types before AES, tokens of version 1
// (RFC 1964), DCE-style contexts, delegation, and user-to-user authentication.
package krb5
