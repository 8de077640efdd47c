// Package nfs3wire holds the types of NFS version 3 (RFC 1813) as they are on
// the wire, with the marks of RFC 8267 §4: which items may be placed directly.
// They serve the server's procedures and clients alike; what the procedures
// mean is not here. nfs3.x is the definition, and xdrgen its compiler.
//
// To write a READDIR result, write its first half with Readdir3Res.EncodeHead,
// each entry with PutEntry3, the end with EndEntry3List and the rest with
// Readdir3Res.EncodeTail; READDIRPLUS goes the same way.
package nfs3wire

//go:generate go run github.com/nfsrdmad/nfsrdmad/rpc/xdr/xdrgen -package nfs3wire -o nfs3_gen.go nfs3.x
