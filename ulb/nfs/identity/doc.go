// Package identity translates between the numbers by which file systems know users and
// groups, and the names that NFS version 4 sends for them (RFC 8881 §5.9, RFC 7530 §5.9):
// "name@domain".
//
// A Map looks in the files passwd and group of the machine, and then asks the machine's services
// (nsswitch.conf(5)) through getent(1). An answer is found, not found, or not available: a service that
// is down may know a name that no other service knows. A Map remembers a limited number of answers.
//
// Groups finds the groups of users, for servers that do not trust the groups that callers claim. It
// also remembers answers. It looks users up in the background, fairly for all client addresses.
//
// Identities that are sent as digits need no Map: see ParseNumber.
package identity
