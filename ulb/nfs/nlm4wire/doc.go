// Package nlm4wire holds the types of the Network Lock Manager version 4 (RFC 1813 appendix II) as they are
// on the wire, and those types of versions 1 and 3 (X/Open C702) that differ from it: their names end in 3. Servers
// and clients use them. The package does not implement the procedures. nlm4.x is the definition, and xdrgen
// compiles it.
package nlm4wire

//go:generate go run github.com/nfsrdmad/nfsrdmad/rpc/xdr/xdrgen -package nlm4wire -o nlm4_gen.go nlm4.x
