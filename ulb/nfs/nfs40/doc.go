// Package nfs40 is the part of NFSv4 that only minor version 0 has (RFC 7530): a client makes
// itself known by SETCLIENTID, each owner of opens or locks numbers its requests, a new owner
// of opens is confirmed, and callbacks go over a connection that the server makes.
//
// Package nfs4 has the operations that the minor versions share. Package state keeps the
// state of the clients.
package nfs40
