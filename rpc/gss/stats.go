package gss

import (
	"fmt"
	"net/netip"
	"sync/atomic"
)

// Reason is the reason for a refusal, for counters and events.
type Reason uint8

// Reasons. Those up to RefusedOther concern calls that make a context.
const (
	// RefusedMechanism: the token belongs to a mechanism that is not served.
	RefusedMechanism Reason = iota
	// RefusedToken: the token is malformed, or was changed on its way.
	RefusedToken
	// RefusedCredential: the server has no key for the initiator's ticket.
	RefusedCredential
	// RefusedExpired: the initiator's ticket is not valid at this time.
	RefusedExpired
	// RefusedReplay: the token was used before.
	RefusedReplay
	// RefusedHandle: the half-made context to continue is not known.
	RefusedHandle
	// RefusedBindings: the channel bindings do not match.
	RefusedBindings
	RefusedOther

	// BadCredential: a credential that is malformed by RFC 2203.
	BadCredential
	// OtherVersion: another version of RPCSEC_GSS.
	OtherVersion
	// UnknownHandle: the call names a context that is not known, or no longer. That is usual
	// after a restart of the server.
	UnknownHandle
	// BadHeader: the header's checksum is wrong.
	BadHeader
	// BadBody: arguments that cannot be unwrapped.
	BadBody
	// Replayed: the sequence number was used before. The call was dropped.
	Replayed
	// BelowWindow: the sequence number is too old to check. The call was dropped, and the
	// connection ended.
	BelowWindow
	// SeqExhausted: the context has used all its sequence numbers.
	SeqExhausted
	// Stale: the context's ticket has ended.
	Stale
	// UnknownPrincipal: a context was made for a caller without numbers. The caller acts as the
	// anonymous user, unless the program refuses it. The context itself was not refused.
	UnknownPrincipal
	// Evicted: a context had to go to make room for another.
	Evicted
	// Unidentified: a context was made, but its caller's numbers could not be looked up. Nothing
	// was refused.
	Unidentified

	reasons
)

var reasonNames = [reasons]string{
	"mechanism", "token", "credential", "expired", "token_replayed", "half_made_unknown", "bindings", "other",
	"bad_credential", "other_version", "unknown_handle", "bad_header", "bad_body", "replayed", "below_window",
	"seq_exhausted", "stale", "unknown_principal", "evicted", "unidentified",
}

// String returns the reason as metrics label it.
func (r Reason) String() string {
	if r < reasons {
		return reasonNames[r]
	}
	return fmt.Sprintf("reason %d", uint8(r))
}

// remedies are the advice to the administrator.
var remedies = [reasons]string{
	RefusedMechanism:  "mount with sec=krb5, krb5i or krb5p",
	RefusedToken:      "if this persists, look for a machine between the two that changes what passes",
	RefusedCredential: "the server's keytab must hold the current key of the service that the client asked for: compare `klist -ke` with `kvno` of the client",
	RefusedExpired:    "compare the clocks of client, server and KDC; renew the client's ticket",
	RefusedReplay:     "if this persists, look for someone who sends again what he heard",
	UnknownPrincipal:  "give the principal a user, or map it to one",
	Unidentified:      "see what holds up the services of the lines passwd and initgroups or group of /etc/nsswitch.conf: getent passwd USER, getent initgroups USER",
	BadBody:           "if this persists, look for a machine between the two that changes what passes",
	BadHeader:         "if this persists, look for a machine between the two that changes what passes",
}

// reasonOf returns the reason for a mechanism's error.
func reasonOf(m Major) Reason {
	switch m {
	case BadMech:
		return RefusedMechanism
	case DefectiveToken, BadMIC, BadName, BadNameType, BadStatus:
		return RefusedToken
	case NoCredential, DefectiveCred:
		return RefusedCredential
	case CredentialsExpired, ContextExpired:
		return RefusedExpired
	case DuplicateToken:
		return RefusedReplay
	case NoContext:
		return RefusedHandle
	case BadBindings:
		return RefusedBindings
	}
	return RefusedOther
}

// Stats is a snapshot of a Server's counters.
type Stats struct {
	// Contexts is the number of established contexts; HalfMade that of contexts that wait for
	// another token.
	Contexts, HalfMade int
	// Made counts the established contexts, Destroyed the contexts that their clients destroyed,
	// and Expired the contexts that expired.
	Made, Destroyed, Expired uint64
	// Calls counts verified calls.
	Calls uint64
	// Refused counts by Reason.
	Refused [reasons]uint64
}

// Event describes a refusal.
type Event struct {
	Reason Reason
	Peer   netip.AddrPort
	// Principal is the caller, if known.
	Principal string
	// Cause is the event in words, and Remedy the advice to the administrator, or "".
	Cause, Remedy string
}

// counters are a Server's counters.
type counters struct {
	made, destroyed, expired, calls atomic.Uint64
	refused                         [reasons]atomic.Uint64
}

// note counts a refusal, and calls Config.Notify.
func (s *Server) note(r Reason, peer netip.AddrPort, principal, cause string) {
	s.count.refused[r].Add(1)
	if s.cfg.Notify != nil {
		s.cfg.Notify(&Event{Reason: r, Peer: peer, Principal: principal, Cause: cause, Remedy: remedies[r]})
	}
}

// Stats returns the current counters.
func (s *Server) Stats() Stats {
	st := Stats{
		Contexts: s.contexts.len(), HalfMade: s.halves.len(),
		Made: s.count.made.Load(), Destroyed: s.count.destroyed.Load(), Expired: s.count.expired.Load(),
		Calls: s.count.calls.Load(),
	}
	for i := range st.Refused {
		st.Refused[i] = s.count.refused[i].Load()
	}
	return st
}
