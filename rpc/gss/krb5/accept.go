package krb5

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"time"

	"github.com/jcmturner/gokrb5/v8/iana/nametype"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
)

// Accept implements gss.Mechanism. The reply is an AP-REP if the initiator asked for mutual
// authentication. If Accept returns an error, the reply is a KRB-ERROR or nil.
func (m *Mechanism) Accept(token, bindings []byte, now time.Time) (gss.Context, []byte, error) {
	req, err := parseAPReq(token)
	if err != nil {
		return nil, m.unknownToken(err, now), err
	}
	c, reply, err := m.accept(req, bindings, now)
	if err != nil {
		return nil, errorToken(req.Ticket.Realm, req.Ticket.SName, codeOf(err), now), err
	}
	return c, reply, nil
}

// accept performs the acceptor's part of the AP exchange (RFC 4120 §3.2.3, RFC 4121 §4.1).
func (m *Mechanism) accept(req *messages.APReq, bindings []byte, now time.Time) (*context, []byte, error) {
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
	w, err := parseWishes(a.Cksum)
	if err != nil {
		return nil, nil, err
	}
	isBound, err := w.bound(bindings)
	if err != nil {
		return nil, nil, err
	}
	base, err := initiatorKey(a, session)
	if err != nil {
		return nil, nil, err
	}
	if !m.replayed.storeNew(req.EncryptedAuthenticator.Cipher, now, m.config.Skew) {
		return nil, nil, failed(gss.DuplicateToken, repeated, "the AP-REQ was sent before")
	}
	c, reply := establish(a, w, session, established{
		key: base, acceptor: true, sequence: uint64(uint32(a.SeqNumber)), bound: isBound,
		principal: principalText(ticket.CName.NameString, ticket.CRealm), own: principalText(by.components, by.realm),
		expiry: ticket.EndTime.Add(m.config.Skew), // the acceptor accepts the ticket for new contexts until then
	})
	return c, reply, nil
}

// initiatorKey returns the key that the initiator chose: its subkey, or the session key if it
// sent none (RFC 4121 §2).
func initiatorKey(a *types.Authenticator, session key) (key, error) {
	if len(a.SubKey.KeyValue) == 0 {
		return session, nil
	}
	k, err := newKey(EType(a.SubKey.KeyType), a.SubKey.KeyValue)
	if err != nil {
		return key{}, failed(gss.Failure, noEType, "the initiator's subkey: %v", err)
	}
	return k, nil
}

// establish returns the context. If the initiator asked for mutual authentication, it makes a fresh
// key for the context, and returns the AP-REP that contains the key.
func establish(a *types.Authenticator, w wishes, session key, e established) (*context, []byte) {
	if w.flags&flagMutual == 0 {
		return newContext(e), nil
	}
	answer := apRep{ctime: a.CTime, cusec: a.Cusec, subkey: e.key.freshKey(), sequence: freshSequence()}
	e.key, e.ownSubkey, e.sequence = answer.subkey, true, uint64(answer.sequence)
	return newContext(e), answer.encode(session)
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
// long. It must take little time, because a client without a ticket can make the acceptor call it.
func errorToken(realm string, server types.PrincipalName, c code, now time.Time) (token []byte) {
	size := len(realm)
	names := make([][]byte, 0, 4)
	for _, n := range server.NameString {
		if size += len(n) + 8; size > maxErrorNames {
			return nil
		}
		names = append(names, der(tagGeneral, []byte(n)))
	}
	if size > maxErrorNames {
		return nil
	}
	now = now.UTC()
	return frame(idKRBError, der(application(30), der(tagSequence,
		der(explicit(0), derInteger(protocolVersion)),
		der(explicit(1), derInteger(30)),
		der(explicit(4), derTime(now)),
		der(explicit(5), derInteger(uint32(now.Nanosecond()/1000))),
		der(explicit(6), derInteger(uint32(c))),
		der(explicit(9), der(tagGeneral, []byte(realm))),
		der(explicit(10), der(tagSequence,
			der(explicit(0), derInteger(uint32(max(server.NameType, 0)))),
			der(explicit(1), der(tagSequence, names...)))))))
}
