package krb5

import (
	"bytes"
	"encoding/asn1"
	"encoding/binary"
	"slices"

	"github.com/jcmturner/gokrb5/v8/asn1tools"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
)

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
	var v asn1.RawValue
	rest, err := asn1.Unmarshal(b, &v)
	return v.Bytes, err == nil && len(rest) == 0 && b[0] == first
}

// unframe is the inverse of frame. The returned message aliases token.
func unframe(token []byte) (id uint16, message []byte, err error) {
	if len(token) > maxToken {
		return 0, nil, failed(gss.DefectiveToken, generic, "a token of %d bytes, the most are %d", len(token), maxToken)
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
