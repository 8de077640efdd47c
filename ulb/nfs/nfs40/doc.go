// Package nfs40 is what NFS version 4 does in a way of its own in minor version 0
// (RFC 7530): clients make themselves known by SETCLIENTID, each owner of opens or locks
// numbers its requests, a new owner of opens is confirmed, and callbacks go over a
// connection that the server makes.
//
// The operations that minor versions share are in package nfs4, and what clients hold is
// in package state.
package nfs40
