package gss

import (
	"fmt"
	"net/netip"
	"sync/atomic"
)

// Reason is why something was refused, for counters and events.
type Reason uint8

// Reasons. Those up to RefusedOther are of calls that make a context.
const (
	// RefusedMechanism: the token is of a mechanism that is not served.
	RefusedMechanism Reason = iota
	// RefusedToken: the token is malformed, or was changed on its way.
	RefusedToken
	// RefusedCredential: the server has no key for what the initiator brings.
	RefusedCredential
	// RefusedExpired: what the initiator brings is not valid at this time.
	RefusedExpired
	// RefusedReplay: the token was used before.
	RefusedReplay
	// RefusedHandle: a context that was to be made on is not known.
	RefusedHandle
	// RefusedBindings: the initiator uses another channel.
	RefusedBindings
	RefusedOther

	// BadCredential: a credential that is none by RFC 2203.
	BadCredential
	// OtherVersion: of RPCSEC_GSS.
	OtherVersion
	// UnknownHandle: a call of a context that is not known (any more). It is usual
	// after a restart of the server.
	UnknownHandle
	// BadHeader: the header's checksum is wrong.
	BadHeader
	// BadBody: arguments whose protection does not come off.
	BadBody
	// Replayed: a sequence number was used before. The call was dropped.
	Replayed
	// BelowWindow: a sequence number is too old to tell. The call was dropped, and
	// the connection ended.
	BelowWindow
	// SeqExhausted: the context has had all its sequence numbers.
	SeqExhausted
	// Stale: the context's ticket has ended.
	Stale
	// UnknownPrincipal: a context was made, and its caller has no numbers: it acts as
	// the anonymous user, unless the program refuses it. The context was not refused.
	UnknownPrincipal
	// Evicted: a context had to make room for another.
	Evicted
	// Unidentified: a context was made, and it could not be told whether its caller has numbers.
	// Nothing was refused.
	Unidentified

	reasons
)

var reasonNames = [reasons]string{
	"mechanism", "token", "credential", "expired", "token_replayed", "half_made_unknown", "bindings", "other",
	"bad_credential", "other_version", "unknown_handle", "bad_header", "bad_body", "replayed", "below_window",
	"seq_exhausted", "stale", "unknown_principal", "evicted", "unidentified",
}

// String is the reason as a metric's label has it.
func (r Reason) String() string {
	if r < reasons {
		return reasonNames[r]
	}
	return fmt.Sprintf("reason %d", uint8(r))
}

// remedies are what to do, where the administrator can do something.
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

// reasonOf is the reason for a failure of a mechanism.
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
	// Contexts are established, HalfMade wait for another token.
	Contexts, HalfMade int
	// Made, Destroyed and Expired count contexts that were established, ended by
	// their client, and ended by time.
	Made, Destroyed, Expired uint64
	// Calls were verified.
	Calls uint64
	// Refused counts by Reason.
	Refused [reasons]uint64
}

// Event tells of something that was refused.
type Event struct {
	Reason Reason
	Peer   netip.AddrPort
	// Principal is the caller, where that is known.
	Principal string
	// Cause is what happened, and Remedy what to do, or "".
	Cause, Remedy string
}

// counters are those of a Server.
type counters struct {
	made, destroyed, expired, calls atomic.Uint64
	refused                         [reasons]atomic.Uint64
}

// note counts, and tells the subscriber, if there is one.
func (s *Server) note(r Reason, peer netip.AddrPort, principal, cause string) {
	s.count.refused[r].Add(1)
	if s.cfg.Notify != nil {
		s.cfg.Notify(&Event{Reason: r, Peer: peer, Principal: principal, Cause: cause, Remedy: remedies[r]})
	}
}

// Stats returns the counters of this moment.
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
