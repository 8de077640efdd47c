package krb5

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/jcmturner/gokrb5/v8/iana/flags"
	"github.com/jcmturner/gokrb5/v8/iana/msgtype"
	"github.com/jcmturner/gokrb5/v8/iana/nametype"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
)

// Acceptor implements gss.Mechanism. All contexts have the same Acceptor, because one token of the
// initiator makes a context.
func (m *Mechanism) Acceptor() gss.Acceptor { return m }

// Accept implements gss.Acceptor. The reply is an AP-REP if the initiator asked for mutual
// authentication. If Accept returns an error, the reply is a KRB-ERROR or nil.
func (m *Mechanism) Accept(token []byte, now time.Time) (gss.Context, []byte, error) {
	req, err := parseAPReq(token)
	if err != nil {
		return nil, m.unknownToken(err, now), err
	}
	c, reply, err := m.accept(req, now)
	if err != nil {
		return nil, errorToken(req.Ticket.Realm, req.Ticket.SName, codeOf(err), now), err
	}
	return c, reply, nil
}

// accept performs the acceptor's part of the AP exchange (RFC 4120 §3.2.3, RFC 4121 §4.1).
func (m *Mechanism) accept(req *messages.APReq, now time.Time) (*context, []byte, error) {
	keys, err := m.serviceKeys()
	if err != nil {
		return nil, nil, seamError(err, gss.NoCredential, noKey)
	}
	ticket, by, err := openTicket(&req.Ticket, keys)
	if err != nil {
		return nil, nil, err
	}
	if err := checkTicket(ticket, now, m.config.Skew); err != nil {
		return nil, nil, err
	}
	session, err := newKey(EType(ticket.Key.KeyType), ticket.Key.KeyValue)
	if err != nil {
		return nil, nil, failed(gss.DefectiveCred, noEType, "the ticket's session key: %v", err)
	}
	a, err := openAuthenticator(req, ticket, session, now, m.config.Skew)
	if err != nil {
		return nil, nil, err
	}
	flags, err := parseFlags(a.Cksum)
	if err != nil {
		return nil, nil, err
	}
	base := session
	if len(a.SubKey.KeyValue) > 0 { // the initiator chose another key (RFC 4121 §2)
		if base, err = newKey(EType(a.SubKey.KeyType), a.SubKey.KeyValue); err != nil {
			return nil, nil, failed(gss.Failure, noEType, "the initiator's subkey: %v", err)
		}
	}
	if !m.replayed.storeNew(req.EncryptedAuthenticator.Cipher, now, m.config.Skew) {
		return nil, nil, failed(gss.DuplicateToken, repeated, "the AP-REQ was sent before")
	}
	contextFlags, sequence := byte(sentByAcceptor), uint32(a.SeqNumber)
	var reply []byte
	if flags&flagMutual != 0 {
		contextFlags |= acceptorSubkey
		base, sequence = base.freshKey(), freshSequence()
		if reply, err = encodeAPRep(a, base, sequence, session); err != nil {
			return nil, nil, failed(gss.Failure, generic, "making the AP-REP: %v", err)
		}
	}
	c := newContext(base, contextFlags, uint64(sequence))
	c.principal, c.own = principalText(ticket.CName.NameString, ticket.CRealm), principalText(by.components, by.realm)
	c.expiry = ticket.EndTime.Add(m.config.Skew) // the acceptor accepts the ticket for new contexts until then
	return c, reply, nil
}

// freshSequence returns a random sequence number for a context's first token. It has at most 30
// bits, because some implementations read a larger number as negative.
func freshSequence() uint32 {
	var b [4]byte
	rand.Read(b[:])
	return binary.BigEndian.Uint32(b[:]) & 0x3fffffff
}

// unknownToken returns a KRB-ERROR that tells the initiator that the acceptor does not know the
// kind of its token, so that it may send another kind (RFC 4121 §4.1). If err has another reason,
// or m has no service key, it returns nil.
func (m *Mechanism) unknownToken(err error, now time.Time) (token []byte) {
	if e := (*gss.Error)(nil); !errors.As(err, &e) || e.Major != gss.ContinueNeeded {
		return nil
	}
	keys, noKeys := m.serviceKeys()
	if noKeys != nil {
		return nil
	}
	server := types.PrincipalName{NameType: nametype.KRB_NT_SRV_INST, NameString: keys[0].components}
	return errorToken(keys[0].realm, server, codeOf(err), now)
}

// maxErrorNames is the largest size of all names in a KRB-ERROR together, in bytes. It is limited
// because the names come from the initiator.
const maxErrorNames = 1024

// errorToken returns a KRB-ERROR with the code c (RFC 4120 §5.9.1), or nil if the names are too
// long.
func errorToken(realm string, server types.PrincipalName, c code, now time.Time) (token []byte) {
	size := len(realm)
	for _, n := range server.NameString {
		size += len(n) + 8
	}
	if size > maxErrorNames {
		return nil
	}
	server.NameType = max(server.NameType, 0)
	now = now.UTC()
	message := messages.KRBError{
		PVNO: protocolVersion, MsgType: msgtype.KRB_ERROR, ErrorCode: int32(c), Realm: realm, SName: server,
		STime: now.Truncate(time.Second), Susec: now.Nanosecond() / 1000,
	}
	encoded, err := message.Marshal()
	if err != nil {
		return nil // a name has bytes that the library does not encode
	}
	return frame(idKRBError, encoded)
}

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
		return failed(gss.DefectiveCred, badMatch, "the ticket's principal has %d bytes, more than %d", len(who), gss.MaxPrincipal)
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

// maxReplays is the largest number of authenticators in replayed.
const maxReplays = 1 << 16

// replayed stores accepted authenticators, so that none is accepted twice (RFC 4120 §3.2.3). It
// stores each for at least twice the allowed skew, because an authenticator's time may be one skew
// in the future. If more than maxReplays/2 come within that time, it may delete an authenticator
// earlier. That does little harm: only clients with a ticket can send so many, and contexts with
// the acceptor's subkey need no protection against repeated authenticators.
//
// The two maps are generations. If the map young has maxReplays/2 authenticators, or was created
// longer ago than twice the skew, it replaces the map old.
type replayed struct {
	mu         sync.Mutex
	young, old map[[sha256.Size]byte]struct{}
	since      time.Time // when young was created
}

// storeNew stores an encrypted authenticator. It returns false if the authenticator was already stored.
func (r *replayed) storeNew(authenticator []byte, now time.Time, skew time.Duration) bool {
	id := sha256.Sum256(authenticator)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.young == nil || len(r.young) >= maxReplays/2 || now.Sub(r.since) > 2*skew {
		r.old, r.young, r.since = r.young, make(map[[sha256.Size]byte]struct{}), now
	}
	_, before := r.young[id]
	_, longBefore := r.old[id]
	r.young[id] = struct{}{}
	return !before && !longBefore
}
