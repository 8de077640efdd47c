// Package mount3wire holds the types of MOUNT version 3 (RFC 1813 appendix I) as they are on the wire.
// Servers and clients use them. The package does not implement the procedures. mount3.x is the definition,
// and xdrgen compiles it.
//
// To write an EXPORT result, write each export with PutExportHead, its groups with PutGroup, the
// end of the groups with EndGroupList, and the rest of the export with Export.EncodeTail. After
// the last export, call EndExportList. MNT's flavors are written after MountRes3.EncodeHead:
// their number with Writer.Uint32, and each with Writer.Int32.
package mount3wire

//go:generate go run github.com/nfsrdmad/nfsrdmad/rpc/xdr/xdrgen -package mount3wire -o mount3_gen.go mount3.x
