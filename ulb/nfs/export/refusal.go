package export

import (
	"fmt"
	"net/netip"
)

// A Reason is the reason for a refused mount.
type Reason uint8

// Reasons.
const (
	// NoExport: no export has the path or a path above it.
	NoExport Reason = iota
	// NotAClient: the export does not serve the client's address.
	NotAClient
	// UnprivilegedPort: the export is secure, the client's port is not privileged, and the
	// caller has not used Kerberos.
	UnprivilegedPort
	// FileSystem: the path leads to no directory that the caller may reach.
	FileSystem
	// NoGroups: the caller's groups, or the caller's identity, cannot be looked up at
	// present.
	NoGroups
	// NoAccount: the export requires an account, and the caller's principal has none here.
	NoAccount
	// Stranger: no export serves the client's address.
	Stranger
)

var reasons = [...]string{
	NoExport: "no export has this path", NotAClient: "the export is not for this address",
	UnprivilegedPort: "the export is secure, the port is not privileged, and the caller has not used Kerberos", FileSystem: "the path leads to no directory that the caller may reach",
	NoGroups: "the caller or its groups cannot be looked up at present", NoAccount: "the export has the option require_account, and the caller's principal has no user here",
	Stranger: "no export is for this address",
}

// String returns the reason in words.
func (r Reason) String() string { return reasons[r] }

// A Refusal describes a mount that the server refused: an MNT or, in NFSv4, a LOOKUP that failed in
// the directories that lead to the exports (see package pseudo). It may also describe an NFSv4
// client that no export serves.
type Refusal struct {
	Client netip.AddrPort
	Path   string       // as the client sent it; "" if it named none
	Export *Export      // nil if no single export caused the refusal
	Status fmt.Stringer // status of the answer
	Reason Reason
}
