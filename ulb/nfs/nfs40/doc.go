// Package nfs40 is the part of NFSv4 that only minor version 0 has (RFC 7530): a client registers
// by SETCLIENTID, each open-owner and lock-owner numbers its requests, the client confirms each new
// open-owner, and the server makes a connection of its own for callbacks.
//
// Package nfs4 has the operations that the minor versions share. Package state keeps the
// state of the clients.
package nfs40
