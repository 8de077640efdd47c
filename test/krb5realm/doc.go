// Package krb5realm creates Kerberos realms for tests: MIT's KDC on ports of its own, with its
// database, configuration, keytabs and caches in one directory. It does not use the system's
// files. It needs Debian's krb5-kdc, krb5-admin-server and krb5-user.
//
// The KDC requires pre-authentication, as KDCs usually do.
//
// A test starts a Realm, adds principals and writes keytabs. Then it runs programs with
// Environment, or passes Conf and keytabs to its own code. The session key of a ticket has the
// encryption type of the service's keys, if the client requests that type. ClientConf writes a
// configuration that does so.
package krb5realm
