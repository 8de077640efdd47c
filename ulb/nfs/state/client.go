package state

import "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"

// A Client is one incarnation of a client: what an EXCHANGE_ID or a SETCLIENTID made.
type Client struct {
	// ID never comes again, in this life of the server or another. The epoch of
	// the server is in its upper half.
	ID uint64
	// Minor is 0 for a client of minor version 0, and 1 for one of a later version.
	Minor uint32
	// Owner is what the client calls itself, and Verifier tells its incarnations
	// apart.
	Owner    string
	Verifier nfs4wire.Verifier4
	// Principal is who made it, as the program that verified him writes it.
	Principal string
	// Guarded: only a request of Principal with integrity is the client's own (SP4_MACH_CRED,
	// RFC 8881 §2.4.3).
	Guarded bool

	known   lease    // of clients.go: what belongs to being a client
	holding holdings // of files.go: what it has open and locked
}
