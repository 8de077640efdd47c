// Package export holds the exports of a server: their directories and names, the clients that each
// export serves, the users that callers act as, and the file handles.
//
// All NFS programs of a server share one Table. It turns a file system's handles into sealed handles for
// clients, and back. A sealed handle has a message authentication code: a client can neither forge a
// handle nor use a handle of one export to reach another. When the configuration changes, the Table
// replaces all exports at once. A running call keeps the export that it has entered.
package export
