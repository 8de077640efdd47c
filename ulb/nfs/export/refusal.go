package export

import (
	"fmt"
	"net/netip"
)

// A Reason is why a mount was refused.
type Reason uint8

// Reasons.
const (
	// NoExport: no export has the path, or one above it.
	NoExport Reason = iota
	// NotAClient: the export is not for the client's address.
	NotAClient
	// UnprivilegedPort: the export is secure, and the client's port is not
	// privileged.
	UnprivilegedPort
	// FileSystem: the path leads to no directory that the caller may reach.
	FileSystem
	// NoGroups: the export manages groups, and the caller's cannot be had at present, or it
	// cannot be told who the caller is.
	NoGroups
	// NoAccount: the export wants its callers to have an account here, and the principal
	// has none.
	NoAccount
	// Stranger: no export at all is for the client's address.
	Stranger
)

var reasons = [...]string{
	NoExport: "no export has this path", NotAClient: "the export is not for this address",
	UnprivilegedPort: "the export is secure, and the port is not privileged", FileSystem: "the path leads to no directory that the caller may reach",
	NoGroups: "the caller or its groups cannot be looked up at present", NoAccount: "the export has the option require_account, and the caller's principal has no user here",
	Stranger: "no export is for this address",
}

// String says it in words.
func (r Reason) String() string { return reasons[r] }

// A Refusal is a mount that was refused: a MNT, a LOOKUP in the tree of names, or a client of
// version 4 that may be none.
type Refusal struct {
	Client netip.AddrPort
	Path   string       // as the client sent it; "" where it names none
	Export *Export      // nil: no single one
	Status fmt.Stringer // the answer
	Reason Reason
}

// OnRefusal has f told of each mount that is refused, before the answer, on the
// goroutine that serves the call: it must not block. It is called before the first call
// is served.
func (t *Table) OnRefusal(f func(*Refusal)) { t.refused = f }

// Refused tells of one.
func (t *Table) Refused(r *Refusal) {
	if t.refused != nil {
		t.refused(r)
	}
}
