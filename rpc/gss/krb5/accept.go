package krb5

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"time"

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
	c, reply := newContext(base, sentByAcceptor, uint64(uint32(a.SeqNumber))), []byte(nil)
	if flags&flagMutual != 0 {
		subkey, sequence := base.freshKey(), freshSequence()
		c = newContext(subkey, sentByAcceptor|acceptorSubkey, uint64(sequence))
		if reply, err = encodeAPRep(a, subkey, sequence, session); err != nil {
			return nil, nil, failed(gss.Failure, generic, "making the AP-REP: %v", err)
		}
	}
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
