// Package export says who may see what: which directories are offered under
// which names, to which clients, as whom they act there, and which handles are
// genuine.
//
// A Table is what all NFS programs of a server share. It turns a file system's
// handles into the sealed ones that clients hold, and back: nobody can make up
// a handle, nor carry one from an export that he may reach to one that he may
// not. It is swapped whole when the configuration changes. A call that runs keeps the
// export that it has entered, and the export that was replaced is told when the last
// such call has left.
package export
