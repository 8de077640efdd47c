// Package nfs3 is NFS version 3 (RFC 1813) as an RPC program over exported file
// systems.
//
// Each procedure stands in a file of its kind: attributes, lookup, data, names,
// directories, file-system facts. A procedure decodes its arguments, opens the
// handle (export, client, identity), calls the file system and encodes the
// result; it is the same for every transport. With rpc.Call.Try it does nothing
// that could block.
//
// Locks (NLM) and access control lists (NFSACL) are other programs.
package nfs3
