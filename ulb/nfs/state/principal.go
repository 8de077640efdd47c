package state

// A Principal identifies the caller of a call. Two calls have the same caller if their Principals
// are equal.
type Principal struct {
	// Proven is the caller's name if the RPC flavor proves it. Otherwise it is empty, and UID is
	// the number that the caller claims.
	Proven string
	UID    uint32
}
