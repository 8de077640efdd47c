package gss

import (
	"fmt"
	"net/netip"
	"sync/atomic"
)

// Reason is the reason for a refusal, or the kind of another event, for counters and events.
type Reason uint8

// Reasons. The reasons up to RefusedOther are for calls that make a context.
const (
	// RefusedMechanism means that the token is of a mechanism that the server does not have.
	RefusedMechanism Reason = iota
	// RefusedToken means that the token is malformed, or was changed in transit.
	RefusedToken
	// RefusedCredential means that the server has no key for the initiator's ticket.
	RefusedCredential
	// RefusedExpired means that the initiator's ticket is not valid at this time.
	RefusedExpired
	// RefusedReplay means that the token was used before.
	RefusedReplay
	// RefusedHandle means that the server does not have the half-made context that the call
	// continues.
	RefusedHandle
	RefusedOther

	// BadCredential means that the call's credential violates the format of RFC 2203.
	BadCredential
	// OtherVersion means that the call is under another version of RPCSEC_GSS than 1.
	OtherVersion
	// UnknownHandle means that the server does not have the context that the call names. This is
	// normal after a restart of the server.
	UnknownHandle
	// BadHeader means that the checksum of the call's header is wrong.
	BadHeader
	// BadBody means that the protection of the call's arguments is malformed or wrong.
	BadBody
	// Replayed means that the sequence number was used before. The call was dropped.
	Replayed
	// BelowWindow means that the sequence number is too old to check. The call was dropped, and its
	// connection closed.
	BelowWindow
	// SeqExhausted means that the context has used all its sequence numbers.
	SeqExhausted
	// Stale means that the context's ticket has expired.
	Stale
	// UnknownPrincipal means that a context was made for a caller without a user number on this
	// machine. The context was not refused. The caller acts as the anonymous user, unless the
	// program refuses it.
	UnknownPrincipal
	// Evicted means that a context was deleted because a limit on the number of contexts was
	// reached (Config.MaxContexts).
	Evicted
	// Unidentified means that a context was made, but that the look-up of its caller's user number
	// failed. Nothing was refused.
	Unidentified

	reasons
)

var reasonNames = [reasons]string{
	"mechanism", "token", "credential", "expired", "token_replayed", "half_made_unknown", "other",
	"bad_credential", "other_version", "unknown_handle", "bad_header", "bad_body", "replayed", "below_window",
	"seq_exhausted", "stale", "unknown_principal", "evicted", "unidentified",
}

// String returns the reason as it appears in the labels of metrics.
func (r Reason) String() string {
	if r < reasons {
		return reasonNames[r]
	}
	return fmt.Sprintf("reason %d", uint8(r))
}

// remedies has the advice to the administrator for each reason.
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
	}
	return RefusedOther
}

// Stats is a snapshot of a Server's counters.
type Stats struct {
	// Contexts is the number of established contexts. HalfMade is the number of contexts that wait
	// for another token of their initiator.
	Contexts, HalfMade int
	// Made counts the contexts that were established. Destroyed counts the contexts that their
	// clients destroyed. Expired counts the contexts that were deleted because they had expired or
	// were unused.
	Made, Destroyed, Expired uint64
	// Calls counts verified calls.
	Calls uint64
	// Refused counts the refusals, and the other events that have a Reason, by Reason.
	Refused [reasons]uint64
}

// Event describes a refusal, or another event that has a Reason.
type Event struct {
	Reason Reason
	Peer   netip.AddrPort
	// Principal is the caller, if known.
	Principal string
	// Cause describes the event. Remedy is the advice to the administrator, or "".
	Cause, Remedy string
}

// counters are a Server's counters.
type counters struct {
	made, destroyed, expired, calls atomic.Uint64
	refused                         [reasons]atomic.Uint64
}

// note counts an event by its reason, and calls Config.Notify.
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
