// Package krb5realm makes Kerberos realms for tests: MIT's KDC on ports of its own,
// with its database, configuration, keytabs and caches in one directory. No file of
// the system is read or written. It needs Debian's krb5-kdc, krb5-admin-server and
// krb5-user.
//
// The KDC asks for pre-authentication, as those of the field do.
//
// A test starts a Realm, adds principals, writes keytabs, and runs programs with
// Environment, or gives Conf and keytabs to its own code. What a principal's keys are
// of also determines the session keys of its tickets, if the client asks for that
// type: ClientConf writes a configuration that does.
package krb5realm
