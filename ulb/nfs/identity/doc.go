// Package identity translates between the numbers that file systems know users and
// groups by, and the names that NFS version 4 sends for them (RFC 8881 §5.9, RFC 7530
// §5.9): "name@domain".
//
// A Map looks names and numbers up in the files of the machine, passwd and group, and
// then asks its services (nsswitch.conf(5)) by getent(1). There are three answers: found, not
// found, and not available: a service that is down may know what nothing else does. What was
// found, and that nothing was, a Map remembers for a time, and no more than a bound.
//
// Groups are the groups of users, for servers that do not believe what callers say of
// theirs: remembered as well, and looked up in the background, fair to client addresses.
//
// Identities that are sent as the digits of their number need no Map: see ParseNumber.
package identity
