// Package export holds the rules of access: the directories offered and their names, the
// clients that each serves, the users that callers act as, and the handles that are genuine.
//
// All NFS programs of a server share one Table. It turns a file system's handles into the
// sealed handles that clients hold, and back. A client can neither forge a handle nor use a
// handle of one export to reach another. When the configuration changes, the exports are
// replaced all at once. A running call keeps the export that it has entered. A replaced
// export reports when the last such call has left (Retire).
package export
