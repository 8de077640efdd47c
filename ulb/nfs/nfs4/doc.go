// Package nfs4 serves NFS version 4: it executes compounds, operation by operation, as
// it decodes them (RFC 8881 §2.3, RFC 7530 §15.2).
//
// Here is the engine and every operation that the minor versions share. What differs is
// handed in as a Minor by packages nfs40 and nfs41: who the client is, how its requests
// are sequenced, and the operations for that.
//
// A compound has one life. Judge walks over it before anything is reserved or brought
// for it. Serve runs its operations on the receiving goroutine as long as none would
// have to wait; from the one that would, the compound goes on on the executor. No
// operation is executed twice. An operation that changes something runs only where its
// largest result can be carried back.
package nfs4
