package krb5

import (
	"time"

	"github.com/jcmturner/gofork/encoding/asn1"
	"github.com/jcmturner/gokrb5/v8/asn1tools"
	"github.com/jcmturner/gokrb5/v8/iana/asnAppTag"
	"github.com/jcmturner/gokrb5/v8/iana/msgtype"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
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
func (r *apRep) encode(session key) ([]byte, error) {
	part, err := asn1.Marshal(messages.EncAPRepPart{
		CTime: r.ctime.UTC(), Cusec: r.cusec, SequenceNumber: int64(r.sequence),
		Subkey: types.EncryptionKey{KeyType: int32(r.subkey.etype), KeyValue: r.subkey.value},
	})
	if err != nil {
		return nil, err
	}
	part = asn1tools.AddASNAppTag(part, asnAppTag.EncAPRepPart)
	message, err := asn1.Marshal(messages.APRep{
		PVNO: protocolVersion, MsgType: msgtype.KRB_AP_REP,
		EncPart: types.EncryptedData{EType: int32(session.etype), Cipher: session.encrypt(usageAPRep, part)},
	})
	return frame(idAPRep, asn1tools.AddASNAppTag(message, asnAppTag.APREP)), err
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
