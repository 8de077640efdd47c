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
	RefusedMechanism  Reason = iota // the token is of a mechanism that the server does not have
	RefusedToken                    // the token is malformed, or was changed in transit
	RefusedCredential               // the server has no key for the initiator's ticket
	RefusedExpired                  // the initiator's ticket is not valid at this time
	RefusedReplay                   // the token was used before
	RefusedHandle                   // the server does not have the half-made context that the call continues
	RefusedOther

	BadCredential // the call's credential violates the format of RFC 2203
	OtherVersion  // the call is under another version of RPCSEC_GSS than 1
	// UnknownHandle means that the server does not have the context that the call names. This is
	// normal after a restart of the server.
	UnknownHandle
	BadHeader    // the checksum of the call's header is wrong
	BadBody      // the protection of the call's arguments is malformed or wrong
	Replayed     // the sequence number was used before; the call was dropped
	BelowWindow  // the sequence number is too old to check; the call was dropped, and its connection closed
	SeqExhausted // the context has used all its sequence numbers
	Stale        // the context's ticket has expired
	// UnknownPrincipal means that a context was made for a caller without a user number on this
	// machine. The context was not refused. The caller acts as the anonymous user, unless the
	// program refuses it.
	UnknownPrincipal
	Evicted // a context was deleted because a limit was reached (Config.MaxContexts)
	// Unidentified means that a context was made, but that the look-up of its caller's user number
	// failed. Nothing was refused.
	Unidentified

	reasons
)

// tampering is the advice for tokens and calls that may have been changed on their way.
const tampering = "if this persists, look for a machine between the two that changes what passes"

// reasonTexts has the label of each reason in metrics, and the advice to the administrator.
var reasonTexts = [reasons]struct{ name, remedy string }{
	RefusedMechanism:  {"mechanism", "mount with sec=krb5, krb5i or krb5p"},
	RefusedToken:      {"token", tampering},
	RefusedCredential: {"credential", "the server's keytab must hold the current key of the service that the client asked for: compare `klist -ke` with `kvno` of the client"},
	RefusedExpired:    {"expired", "compare the clocks of client, server and KDC; renew the client's ticket"},
	RefusedReplay:     {"token_replayed", "if this persists, look for someone who sends again what he heard"},
	RefusedHandle:     {name: "half_made_unknown"},
	RefusedOther:      {name: "other"},
	BadCredential:     {name: "bad_credential"},
	OtherVersion:      {name: "other_version"},
	UnknownHandle:     {name: "unknown_handle"},
	BadHeader:         {"bad_header", tampering},
	BadBody:           {"bad_body", tampering},
	Replayed:          {name: "replayed"},
	BelowWindow:       {name: "below_window"},
	SeqExhausted:      {name: "seq_exhausted"},
	Stale:             {name: "stale"},
	UnknownPrincipal:  {"unknown_principal", "give the principal a user, or map it to one"},
	Evicted:           {name: "evicted"},
	Unidentified:      {"unidentified", "see what holds up the services of the lines passwd and initgroups or group of /etc/nsswitch.conf: getent passwd USER, getent initgroups USER"},
}

// String returns the reason as it appears in the labels of metrics.
func (r Reason) String() string {
	if r < reasons {
		return reasonTexts[r].name
	}
	return fmt.Sprintf("reason %d", uint8(r))
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
		s.cfg.Notify(&Event{Reason: r, Peer: peer, Principal: principal, Cause: cause, Remedy: reasonTexts[r].remedy})
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
