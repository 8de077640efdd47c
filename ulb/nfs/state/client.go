package state

import "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"

// A Client is one incarnation of a client. An EXCHANGE_ID or a SETCLIENTID creates it.
type Client struct {
	// ID is never used again, not even after a restart of the server. Its upper 32 bits are the
	// server's epoch: see clients.epoch.
	ID uint64
	// Minor is 0 for a client of minor version 0, and 1 for one of a later version.
	Minor uint32
	// Owner is the client's own name for itself. Verifier tells its incarnations apart.
	Owner    string
	Verifier nfs4wire.Verifier4
	// Principal is the caller that made the client, in the notation of the protocol package
	// (nfs40 or nfs41).
	Principal string
	// Guarded is true if the client asked for state protection by SP4_MACH_CRED (RFC 8881 §2.4.3).
	// The Manager then accepts an EXCHANGE_ID as this client's own only if Principal sent it with
	// integrity protection.
	Guarded bool

	known   lease    // lease and identity; see lease.go
	holding holdings // opens and locks; see files.go
}
