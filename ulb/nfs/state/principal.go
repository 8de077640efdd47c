package state

// A Principal is who makes a call: two calls are the same one's where it is equal.
type Principal struct {
	// Proven is the caller's name by a flavor that proves it. Where none does it is
	// empty, and UID is the number that the caller says it has.
	Proven string
	UID    uint32
}
