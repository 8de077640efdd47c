package krb5

import (
	"bytes"
	stdasn1 "encoding/asn1"
	"encoding/binary"
	"slices"
	"time"

	"github.com/jcmturner/gofork/encoding/asn1"
	"github.com/jcmturner/gokrb5/v8/asn1tools"
	"github.com/jcmturner/gokrb5/v8/iana/asnAppTag"
	"github.com/jcmturner/gokrb5/v8/iana/flags"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/iana/msgtype"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
)

// protocolVersion is the version of Kerberos in each message (RFC 4120 §5.2).
const protocolVersion = 5

// hasFlag reports whether a bit is set. A bit beyond the end of f is not set.
func hasFlag(f asn1.BitString, bit int) bool {
	return bit/8 < len(f.Bytes) && f.Bytes[bit/8]&(0x80>>(bit%8)) != 0
}

// parseAPReq decodes an initiator's token.
func parseAPReq(token []byte) (*messages.APReq, error) {
	id, message, err := unframe(token)
	if err != nil {
		return nil, err
	}
	switch id {
	case idAPReq:
	case idAPRep, idKRBError:
		return nil, failed(gss.DefectiveToken, wrongType, "the token is not an AP-REQ but %#04x", id)
	default:
		return nil, failed(gss.ContinueNeeded, wrongType, "the token is of a kind that RFC 4121 does not have: %#04x", id)
	}
	if _, ok := derContent(message, applicationTag|asnAppTag.APREQ); !ok {
		return nil, failed(gss.DefectiveToken, wrongType, "the AP-REQ is cut off, or something follows it")
	}
	req := new(messages.APReq)
	if err := guarded(func() error { return req.Unmarshal(message) }); err != nil {
		return nil, failed(gss.DefectiveToken, wrongType, "the AP-REQ cannot be parsed: %v", err)
	}
	if req.PVNO != protocolVersion || req.Ticket.TktVNO != protocolVersion {
		return nil, failed(gss.DefectiveToken, badVersion, "the AP-REQ is of another version of Kerberos")
	}
	if hasFlag(req.APOptions, flags.APOptionUseSessionKey) {
		return nil, failed(gss.NoCredential, noKey, "user-to-user authentication is not served")
	}
	return req, nil
}

// openAuthenticator decrypts the authenticator, which the initiator made for this context, and
// compares it with the ticket (RFC 4120 §3.2.3).
func openAuthenticator(req *messages.APReq, ticket *messages.EncTicketPart, session key, now time.Time, skew time.Duration) (*types.Authenticator, error) {
	sealed := req.EncryptedAuthenticator
	plain, ok := session.decrypt(keyusage.AP_REQ_AUTHENTICATOR, sealed.Cipher)
	if !ok || EType(sealed.EType) != session.etype {
		return nil, failed(gss.DefectiveCred, badIntegrity, "the authenticator was not made with the session's key")
	}
	a := new(types.Authenticator)
	if err := guarded(func() error { return a.Unmarshal(plain) }); err != nil {
		return nil, failed(gss.DefectiveToken, wrongType, "the authenticator cannot be parsed: %v", err)
	}
	if a.AVNO != protocolVersion {
		return nil, failed(gss.DefectiveToken, badVersion, "the authenticator is of another version of Kerberos")
	}
	if a.CRealm != ticket.CRealm || !slices.Equal(a.CName.NameString, ticket.CName.NameString) {
		return nil, failed(gss.DefectiveCred, badMatch, "the authenticator names %s, and the ticket %s",
			principalText(a.CName.NameString, a.CRealm), principalText(ticket.CName.NameString, ticket.CRealm))
	}
	if a.Cusec < 0 || a.Cusec > 999_999 {
		return nil, failed(gss.DefectiveToken, wrongType, "the authenticator's time has %d microseconds", a.Cusec)
	}
	at := a.CTime.Add(time.Duration(a.Cusec) * time.Microsecond)
	if apart := now.Sub(at).Abs(); apart > skew {
		return nil, failed(gss.CredentialsExpired, skewed, "the clocks are %v apart, allowed are %v: set the client's or the server's", apart.Round(time.Second), skew)
	}
	if err := checkAuthorization(a.AuthorizationData, principalText(a.CName.NameString, a.CRealm)); err != nil {
		return nil, err
	}
	return a, nil
}

// encodeAPRep returns the token that answers an AP-REQ with the authenticator a (RFC 4120 §5.5.2).
// With it, the acceptor proves its identity, and sends the context's key, which is subkey, and the
// sequence number of the acceptor's first token.
func encodeAPRep(a *types.Authenticator, subkey key, sequence uint32, session key) ([]byte, error) {
	part, err := asn1.Marshal(messages.EncAPRepPart{
		CTime: a.CTime.UTC(), Cusec: a.Cusec, SequenceNumber: int64(sequence),
		Subkey: types.EncryptionKey{KeyType: int32(subkey.etype), KeyValue: subkey.value},
	})
	if err != nil {
		return nil, err
	}
	part = asn1tools.AddASNAppTag(part, asnAppTag.EncAPRepPart)
	message, err := asn1.Marshal(messages.APRep{
		PVNO: protocolVersion, MsgType: msgtype.KRB_AP_REP,
		EncPart: types.EncryptedData{EType: int32(session.etype), Cipher: session.encrypt(keyusage.AP_REP_ENCPART, part)},
	})
	return frame(idAPRep, asn1tools.AddASNAppTag(message, asnAppTag.APREP)), err
}

// parseAPRep decodes the AP-REP in the acceptor's token, and decrypts it with the session key.
func parseAPRep(message []byte, session key) (*messages.EncAPRepPart, error) {
	var outer messages.APRep
	if err := guarded(func() error { return outer.Unmarshal(message) }); err != nil {
		return nil, failed(gss.DefectiveToken, wrongType, "the AP-REP cannot be parsed: %v", err)
	}
	plain, ok := session.decrypt(keyusage.AP_REP_ENCPART, outer.EncPart.Cipher)
	if !ok || EType(outer.EncPart.EType) != session.etype {
		return nil, failed(gss.DefectiveToken, badIntegrity, "the AP-REP was not made with the session's key")
	}
	part := new(messages.EncAPRepPart)
	if err := guarded(func() error { return part.Unmarshal(plain) }); err != nil {
		return nil, failed(gss.DefectiveToken, wrongType, "the AP-REP's encrypted part cannot be parsed: %v", err)
	}
	return part, nil
}

// oid is the mechanism's object identifier, 1.2.840.113554.1.2.2 (RFC 4121 §2). derOID is oid with
// tag and length.
var (
	oid    = []byte{0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02}
	derOID = append([]byte{0x06, byte(len(oid))}, oid...)
)

// maxToken is the longest context-establishment token, in bytes. It has room for tickets with much
// authorization data, which have tens of kilobytes.
const maxToken = 64 << 10

// frame returns a context-establishment token with the given ID and message (RFC 2743 §3.1, RFC
// 4121 §4.1).
func frame(id uint16, message []byte) []byte {
	content := binary.BigEndian.AppendUint16(slices.Clone(derOID), id)
	return asn1tools.AddASNAppTag(append(content, message...), 0)
}

// applicationTag is the first octet of a constructed value with the tag [APPLICATION 0].
const applicationTag = 0x60

// derContent returns the content of b. ok is false if b is not exactly one value in DER with this
// first octet.
func derContent(b []byte, first byte) (content []byte, ok bool) {
	var v stdasn1.RawValue
	rest, err := stdasn1.Unmarshal(b, &v)
	return v.Bytes, err == nil && len(rest) == 0 && b[0] == first
}

// unframe is the inverse of frame. The returned message aliases token.
func unframe(token []byte) (id uint16, message []byte, err error) {
	if len(token) > maxToken {
		return 0, nil, failed(gss.DefectiveToken, generic, "a token of %d bytes is longer than %d", len(token), maxToken)
	}
	content, ok := derContent(token, applicationTag)
	if !ok {
		return 0, nil, failed(gss.DefectiveToken, generic, "the token has no framing of RFC 2743")
	}
	message, ok = bytes.CutPrefix(content, derOID)
	if !ok {
		return 0, nil, failed(gss.BadMech, generic, "the token is of another mechanism than Kerberos version 5")
	}
	if len(message) < 2 {
		return 0, nil, failed(gss.DefectiveToken, generic, "the token is empty")
	}
	return binary.BigEndian.Uint16(message), message[2:], nil
}

// checksumType is the type of the authenticator's checksum field. Instead of a checksum, the field
// contains the initiator's flags and channel bindings (RFC 4121 §4.1.1).
const checksumType = 0x8003

// The constants with the prefix flag are the flags that an initiator may set (RFC 4121 §4.1.1.1,
// RFC 2744 §3.9.1). The others are sizes and offsets of the field, in bytes, and the type of a
// delegation in it.
const (
	flagDelegate  = 1
	flagMutual    = 2
	flagReplay    = 4
	flagSequence  = 8
	flagConf      = 16
	flagInteg     = 32
	flagDCEStyle  = 0x1000
	bindingsSize  = 16
	flagsAt       = 4 + bindingsSize
	checksumSize  = flagsAt + 4
	delegationTag = 1
)

// parseFlags returns the flags in an authenticator's checksum field. It checks the form of a
// delegated credential but does not use it. It ignores extensions and channel bindings, because an
// acceptor without bindings has to accept any (RFC 4121 §4.1.1.2).
func parseFlags(sum types.Checksum) (flags uint32, err error) {
	b := sum.Checksum
	if sum.CksumType != checksumType {
		return 0, failed(gss.DefectiveToken, wrongChecksum, "the authenticator's checksum is of type %d, not of GSS-API's", sum.CksumType)
	}
	if len(b) < checksumSize || binary.LittleEndian.Uint32(b) != bindingsSize {
		return 0, failed(gss.DefectiveToken, wrongChecksum, "the authenticator's checksum is malformed")
	}
	flags, b = binary.LittleEndian.Uint32(b[flagsAt:]), b[checksumSize:]
	if flags&flagDelegate != 0 &&
		(len(b) < 4 || binary.LittleEndian.Uint16(b) != delegationTag || len(b)-4 < int(binary.LittleEndian.Uint16(b[2:]))) {
		return 0, failed(gss.DefectiveToken, wrongChecksum, "the delegation in the authenticator's checksum is malformed")
	}
	if flags&flagDCEStyle != 0 {
		return 0, failed(gss.Failure, generic, "contexts in DCE style are not served")
	}
	return flags, nil
}

// encodeFlags returns the checksum field of an authenticator, without channel bindings.
func encodeFlags(flags uint32) types.Checksum {
	b := make([]byte, checksumSize)
	binary.LittleEndian.PutUint32(b, bindingsSize)
	binary.LittleEndian.PutUint32(b[flagsAt:], flags)
	return types.Checksum{CksumType: checksumType, Checksum: b}
}
