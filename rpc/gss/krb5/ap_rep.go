package krb5

import (
	"time"

	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
)

// Key usages of the AP exchange (RFC 4120 §7.5.1).
const (
	usageTicket        = 2
	usageAuthenticator = 11
	usageAPRep         = 12
)

// An apRep is the encrypted part of an AP-REP (RFC 4120 §5.5.2). With it, the acceptor proves its
// identity, and sends the context's key and the first sequence number of the acceptor's tokens.
type apRep struct {
	// ctime and cusec are the time in the authenticator: whole seconds, and microseconds.
	ctime time.Time
	cusec int
	// subkey is the key that the acceptor chose. If it chose none, subkey.profile is nil.
	subkey   key
	sequence uint32
}

// encode returns the token that answers an AP-REQ.
func (r *apRep) encode(session key) []byte {
	part := der(application(27), der(tagSequence,
		der(explicit(0), derTime(r.ctime)),
		der(explicit(1), derInteger(uint32(r.cusec))),
		der(explicit(2), der(tagSequence,
			der(explicit(0), derInteger(uint32(r.subkey.etype))),
			der(explicit(1), der(tagOctets, r.subkey.value)))),
		der(explicit(3), derInteger(r.sequence))))
	message := der(application(15), der(tagSequence,
		der(explicit(0), derInteger(protocolVersion)),
		der(explicit(1), derInteger(15)),
		der(explicit(2), der(tagSequence,
			der(explicit(0), derInteger(uint32(session.etype))),
			der(explicit(2), der(tagOctets, session.encrypt(usageAPRep, part)))))))
	return frame(idAPRep, message)
}

// parseAPRep decodes the AP-REP in the acceptor's token, and decrypts it with the session key.
func parseAPRep(message []byte, session key) (*apRep, error) {
	var outer messages.APRep
	if err := guarded(func() error { return outer.Unmarshal(message) }); err != nil {
		return nil, failed(gss.DefectiveToken, wrongType, "the AP-REP cannot be parsed: %v", err)
	}
	plain, ok := session.decrypt(usageAPRep, outer.EncPart.Cipher)
	if !ok || EType(outer.EncPart.EType) != session.etype {
		return nil, failed(gss.DefectiveToken, badIntegrity, "the AP-REP was not made with the session's key")
	}
	var part messages.EncAPRepPart
	if err := guarded(func() error { return part.Unmarshal(plain) }); err != nil {
		return nil, failed(gss.DefectiveToken, wrongType, "the AP-REP's encrypted part cannot be parsed: %v", err)
	}
	r := &apRep{ctime: part.CTime, cusec: part.Cusec, sequence: uint32(part.SequenceNumber)}
	if len(part.Subkey.KeyValue) == 0 {
		return r, nil
	}
	var err error
	if r.subkey, err = newKey(EType(part.Subkey.KeyType), part.Subkey.KeyValue); err != nil {
		return nil, failed(gss.Failure, noEType, "the acceptor's subkey: %v", err)
	}
	return r, nil
}
