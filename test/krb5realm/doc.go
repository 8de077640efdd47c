// Package krb5realm makes Kerberos realms for tests: MIT's KDC on ports of its own, with its
// database, configuration, keytabs and caches in one directory. It reads and writes no file of
// the system. It needs Debian's krb5-kdc, krb5-admin-server and krb5-user.
//
// The KDC requires pre-authentication, as usual.
//
// A test starts a Realm, adds principals, writes keytabs, and runs programs with Environment, or
// gives Conf and keytabs to its own code. The encryption type of a principal's keys is also that
// of its tickets' session keys, if the client asks for that type: ClientConf writes a
// configuration that does.
package krb5realm
