package krb5

import (
	"slices"
	"time"

	"github.com/jcmturner/gokrb5/v8/iana/flags"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
)

// The acceptor tries at most maxTrials keys on a ticket. For a long ticket it tries fewer, but at
// least fewTrials, so that all trials together decrypt about maxTrialBytes. The number of trials is
// limited because any peer can send a ticket. Keys with the ticket's principal and version are
// tried first.
const (
	maxTrials     = 64
	fewTrials     = 4
	maxTrialBytes = 128 << 10
)

func trials(keys, length int) int {
	return min(keys, maxTrials, max(maxTrialBytes/max(length, 1), fewTrials))
}

// openTicket decrypts a ticket, and returns its encrypted part and the key that decrypted it. The
// ticket may contain another name of the host than the keytab. So the principal and the version of a
// key only decide which key is tried first. If a key decrypts the ticket, the ticket is for this
// service.
func openTicket(t *messages.Ticket, keys []serviceKey) (*messages.EncTicketPart, *serviceKey, error) {
	name, etype := principalText(t.SName.NameString, t.Realm), EType(t.EncPart.EType)
	fitting := slices.DeleteFunc(slices.Clone(keys), func(k serviceKey) bool {
		return k.etype != etype || k.realm != t.Realm
	})
	if len(fitting) == 0 {
		return nil, nil, failed(gss.NoCredential, noKey, "the keytab has no key for %s of type %v, which the ticket is encrypted with", name, etype)
	}
	rank := func(k serviceKey) (n int) {
		if !slices.Equal(k.components, t.SName.NameString) {
			n += 2
		}
		if k.version != uint32(t.EncPart.KVNO) {
			n++
		}
		return n
	}
	slices.SortStableFunc(fitting, func(a, b serviceKey) int { return rank(a) - rank(b) })
	for _, k := range fitting[:trials(len(fitting), len(t.EncPart.Cipher))] {
		plain, ok := k.tickets().decrypt(t.EncPart.Cipher)
		if !ok {
			continue
		}
		part := new(messages.EncTicketPart)
		if err := guarded(func() error { return part.Unmarshal(plain) }); err != nil {
			return nil, nil, failed(gss.DefectiveToken, wrongType, "the ticket's encrypted part cannot be parsed: %v", err)
		}
		return part, &k, nil
	}
	// Use the code badIntegrity, because it is the only one after which Linux's rpc.gssd gets a new
	// ticket.
	return nil, nil, failed(gss.NoCredential, badIntegrity, "the ticket for %s, key version %d, fits no key of the keytab: it may be older or newer than the keytab", name, t.EncPart.KVNO)
}

// checkTicket returns an error if a decrypted ticket is not valid (RFC 4120 §3.2.3, §2.7).
func checkTicket(t *messages.EncTicketPart, now time.Time, skew time.Duration) error {
	start := t.StartTime
	if start.IsZero() {
		start = t.AuthTime
	}
	who := principalText(t.CName.NameString, t.CRealm)
	switch {
	case len(who) > gss.MaxPrincipal:
		return failed(gss.DefectiveCred, badMatch, "the ticket's principal has %d bytes, the most are %d", len(who), gss.MaxPrincipal)
	case len(t.CName.NameString) == 0 || t.CRealm == "":
		return failed(gss.DefectiveCred, badMatch, "the ticket names no principal")
	case hasFlag(t.Flags, flags.Invalid):
		return failed(gss.DefectiveCred, ticketNotYet, "the ticket of %s was not validated", who)
	case start.Sub(now) > skew:
		return failed(gss.CredentialsExpired, ticketNotYet, "the ticket of %s is valid from %v on", who, start)
	case now.Sub(t.EndTime) > skew: // RFC 4120 §3.2.3
		return failed(gss.CredentialsExpired, ticketExpired, "the ticket of %s ended at %v", who, t.EndTime)
	case len(t.Transited.Contents) > 0 && !hasFlag(t.Flags, flags.TransitedPolicyChecked):
		return failed(gss.DefectiveCred, pathNotAccepted, "the ticket of %s went through other realms, and our KDC did not check the path", who)
	}
	return checkAuthorization(t.AuthorizationData, who)
}

// Types of authorization data that this package ignores (RFC 4120 §5.2.6). AD-IF-RELEVANT contains
// elements that a server may ignore if it does not know them. AD-KDCIssued adds rights, and does
// not restrict the ticket. AD-MANDATORY-FOR-KDC is for KDCs only.
const (
	adIfRelevant      = 1
	adKDCIssued       = 4
	adMandatoryForKDC = 8
)

// checkAuthorization checks the authorization data of a ticket or an authenticator. It returns an
// error if data has a type other than the constants above: the other types may restrict the use of
// the ticket, and this package does not implement such restrictions (RFC 4120 §5.2.6). The data of
// Active Directory and of MIT's KDC are within AD-IF-RELEVANT.
func checkAuthorization(data types.AuthorizationData, who string) error {
	for _, e := range data {
		switch e.ADType {
		case adIfRelevant, adKDCIssued, adMandatoryForKDC:
		default:
			return failed(gss.DefectiveCred, generic, "the ticket of %s is restricted by authorization data of type %d, which is not known here", who, e.ADType)
		}
	}
	return nil
}
