// Package nfs4wire holds the types of NFS version 4 as they are on the wire: the types of minor
// versions 0, 1 and 2 (RFC 7531, RFC 5662, RFC 7863) and of the callback program. It marks the items
// that may be placed directly (RFC 8267 §6.1). nfs4.x is the definition, and xdrgen compiles it.
//
// There is no type for a COMPOUND, nor a union of all operations: a compound is
// executed as it is decoded, operation by operation.
package nfs4wire

//go:generate go run github.com/nfsrdmad/nfsrdmad/rpc/xdr/xdrgen -package nfs4wire -o nfs4_gen.go nfs4.x

// Numbers of NFS version 4 and of the callback program: program, versions and procedures.
// The callback program has no fixed number: the client chooses it in SETCLIENTID (minor
// version 0) or CREATE_SESSION.
const (
	Program         = 100003
	Version         = 4
	ProcNull        = 0
	ProcCompound    = 1
	CallbackVersion = 1 // RFC 8881 §20.1
	ProcCBNull      = 0
	ProcCBCompound  = 1
)
