// Package export says who may see what: which directories are offered under
// which names, to which clients, which users those act as, and which handles are
// genuine.
//
// A Table is what all NFS programs of a server share. It turns a file system's handles into
// the sealed ones that clients hold, and back: a client can neither make up a handle nor
// carry one from an export that it may reach to one that it may not. It is swapped whole
// when the configuration changes. A call that runs keeps the export that it has entered,
// and the export that was replaced is told when the last such call has left.
package export
