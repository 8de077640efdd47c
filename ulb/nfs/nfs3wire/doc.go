// Package nfs3wire holds the types of NFS version 3 (RFC 1813) as they are on the wire, and marks the
// items that may be placed directly (RFC 8267 §4). Servers and clients use them. The package does not
// implement the procedures. nfs3.x is the definition, and xdrgen compiles it.
//
// To write a READDIR result, write its first half with Readdir3Res.EncodeHead, each entry with
// PutEntry3, the end with EndEntry3List and the rest with Readdir3Res.EncodeTail; READDIRPLUS works in
// the same way.
package nfs3wire

//go:generate go run github.com/nfsrdmad/nfsrdmad/rpc/xdr/xdrgen -package nfs3wire -o nfs3_gen.go nfs3.x
