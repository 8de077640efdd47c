package nfs4test

import (
	"strings"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A rule allows one status of one operation in one minor version.
type rule struct {
	minor  uint32
	op     wire.OpNum
	status wire.NFSStat4
}

// valid has the rules from the standards' tables of errors.
var valid = rulesOf(valid40, 0).and(valid41, 1).and(valid41, 2).and(valid42, 2)

type rules map[rule]bool

func rulesOf(table map[wire.OpNum]string, minor uint32) rules {
	return rules{}.and(table, minor)
}

// and adds the rules of a table to r, for a minor version, and returns r. It panics if the table
// has a name that is not an NFSv4 error.
func (r rules) and(table map[wire.OpNum]string, minor uint32) rules {
	for op, names := range table {
		for name := range strings.FieldsSeq(names) {
			s, ok := statusNamed["NFS4ERR_"+name]
			if !ok {
				panic(op.String() + ": there is no NFS4ERR_" + name)
			}
			r[rule{minor, op, s}] = true
		}
	}
	return r
}

// statusNamed has the errors by name.
var statusNamed = func() map[string]wire.NFSStat4 {
	all := map[string]wire.NFSStat4{}
	for _, span := range [...][2]wire.NFSStat4{{1, 100}, {wire.NFS4ErrBadHandle, wire.NFS4ErrXattr2Big + 1}} {
		for s := span[0]; s < span[1]; s++ {
			all[s.String()] = s
		}
	}
	return all
}()

// told has the rules that the text of the standards gives, but their tables of errors leave out.
var told = map[rule]bool{
	// SEEK with an offset beyond the end of the file (RFC 7862 §15.11.3).
	{2, wire.OpSeek, wire.NFS4ErrNXIO}: true,
	// LISTXATTRS without room for one name (RFC 8276 §8.4.3.3).
	{2, wire.OpListXattrs, wire.NFS4ErrTooSmall}: true,
	// Arguments that cannot be decoded (RFC 8881 §15.1.1.1). The table of RFC 8276 has it for the other three.
	{2, wire.OpListXattrs, wire.NFS4ErrBadXDR}: true,
	// OPTIONAL operations, which a server need not implement (RFC 7862 §13, RFC 8276 §8.4).
	{2, wire.OpCopy, wire.NFS4ErrNotSupp}:        true,
	{2, wire.OpCopyNotify, wire.NFS4ErrNotSupp}:  true,
	{2, wire.OpSetXattr, wire.NFS4ErrNotSupp}:    true,
	{2, wire.OpRemoveXattr, wire.NFS4ErrNotSupp}: true,
	// An EXCHANGE_ID that updates the client of another principal (RFC 8881 §18.35.4, case 9).
	{1, wire.OpExchangeID, wire.NFS4ErrPerm}: true,
	{2, wire.OpExchangeID, wire.NFS4ErrPerm}: true,
	// The caller may not change the client's state, because the state is protected from other
	// callers (RFC 8881 §15.1.6.4).
	{1, wire.OpBindConnToSession, wire.NFS4ErrWrongCred}: true,
	{2, wire.OpBindConnToSession, wire.NFS4ErrWrongCred}: true,
	{1, wire.OpBackchannelCtl, wire.NFS4ErrWrongCred}:    true,
	{2, wire.OpBackchannelCtl, wire.NFS4ErrWrongCred}:    true,
}

// withoutSession has the operations that may begin a compound (RFC 8881 §18.46.3, §18.50.3).
var withoutSession = map[wire.OpNum]bool{
	wire.OpSequence: true, wire.OpExchangeID: true, wire.OpCreateSession: true,
	wire.OpDestroySession: true, wire.OpDestroyClientID: true, wire.OpBindConnToSession: true,
}

// Valid reports whether an operation of a minor version may end with a status: the standard's
// table of errors, or its text, must allow it.
func Valid(minor uint32, op wire.OpNum, s wire.NFSStat4) bool {
	switch {
	case op == wire.OpIllegal:
		return s == wire.NFS4ErrOpIllegal || s == wire.NFS4ErrBadXDR
	case s == wire.NFS4OK:
		return minor == 0 || valid41[op] != "NOTSUPP"
	case minor == 0 && s == wire.NFS4ErrResource:
		// A COMPOUND may run out of resources at any operation (RFC 7530 §13.1.3.4).
		return true
	case minor > 0 && (s == wire.NFS4ErrRepTooBig || s == wire.NFS4ErrRepTooBigToCache || s == wire.NFS4ErrRetryUncachedRep):
		// The reply may become too large at any operation. Each operation may be the one after
		// SEQUENCE in a repeated request whose reply was not cached (RFC 8881 §2.10.6.4,
		// §2.10.6.1.3.1).
		return true
	case minor > 0 && s == wire.NFS4ErrOpNotInSession:
		// This is the error of an operation that must follow SEQUENCE and does not, whether or
		// not the server implements it (RFC 8881 §18.46.3).
		return !withoutSession[op]
	}
	r := rule{minor, op, s}
	return valid[r] || told[r]
}
