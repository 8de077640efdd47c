package mount3

import (
	"net/netip"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/mount3wire"
)

// A Reason is why a MNT was refused.
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
)

var reasons = [...]string{
	NoExport: "no export has this path", NotAClient: "the export is not for this address",
	UnprivilegedPort: "the export is secure, and the port is not privileged", FileSystem: "the path leads to no directory that the caller may reach",
	NoGroups: "the caller or its groups cannot be looked up at present", NoAccount: "the export has the option require_account, and the caller's principal has no user here",
}

// String says it in words.
func (r Reason) String() string { return reasons[r] }

// A Refusal is a MNT that did not give out a handle.
type Refusal struct {
	Client netip.AddrPort
	Path   string         // as the client sent it
	Export *export.Export // nil: NoExport
	Status wire.Stat3     // the answer
	Reason Reason
}

// OnRefusal has f told of each MNT that is refused, before the answer, on the
// goroutine that serves the call: it must not block. It is called before the
// program is registered.
func (p *Program) OnRefusal(f func(*Refusal)) { p.refused = f }
