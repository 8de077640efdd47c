// Package nsmwire holds the types of the Network Status Monitor version 1 (X/Open C702 chapter 11) as they
// are on the wire. Servers and clients use them. The package does not implement the procedures. nsm.x is the
// definition, and xdrgen compiles it.
package nsmwire

//go:generate go run github.com/nfsrdmad/nfsrdmad/rpc/xdr/xdrgen -package nsmwire -o nsm_gen.go nsm.x
