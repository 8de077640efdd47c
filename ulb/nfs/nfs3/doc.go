// Package nfs3 is NFS version 3 (RFC 1813) as an RPC program over exported file systems.
//
// The procedures are grouped into files by kind: attributes, lookup, data, names, directory, filesystem.
// Serve marks the export of a call's handle as in use (export.Export.Enter) and identifies the caller. The
// procedure then decodes its arguments, calls the file system and encodes the result, in the same way for
// every transport. If rpc.Call.Try is true, it does nothing that could block.
//
// Locks (NLM) and access control lists (NFSACL) are other programs.
package nfs3
