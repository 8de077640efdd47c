package krb5

import "github.com/nfsrdmad/nfsrdmad/rpc/gss"

// MICSize implements gss.Context.
func (c *context) MICSize() int { return headerSize + c.profile.mac }

// MIC implements gss.Context (RFC 4121 §4.2.6.1).
func (c *context) MIC(dst []byte, pieces ...[]byte) []byte {
	var header [headerSize]byte
	putHeader(header[:], idMIC, c.flags, c.number())
	at := len(dst)
	dst = append(dst, header[:]...)
	h := c.sign.start()
	h.writeAll(pieces)
	h.Write(dst[at:])
	return c.sign.appendMAC(dst, h)
}

// VerifyMIC implements gss.Context.
func (c *context) VerifyMIC(token []byte, pieces ...[]byte) error {
	if len(token) != c.MICSize() || !hasID(token, idMIC) {
		return errNotMIC
	}
	header := token[:headerSize]
	if header[2]&knownFlags != c.peerFlags || !filled(header[3:8]) {
		return errMICHeader
	}
	h := c.verify.start()
	h.writeAll(pieces)
	h.Write(header)
	if !c.verify.matches(token[headerSize:], h) {
		return errBadMIC
	}
	return nil
}

func filled(b []byte) bool {
	for _, v := range b {
		if v != filler {
			return false
		}
	}
	return true
}

// Errors of per-message tokens. They are variables, so that a peer that sends many bad tokens
// causes no allocations.
var (
	errNotMIC     = &gss.Error{Major: gss.DefectiveToken, Text: "not a MIC token, or not of the context's encryption type"}
	errMICHeader  = &gss.Error{Major: gss.DefectiveToken, Text: "a MIC token of the wrong direction or key"}
	errBadMIC     = &gss.Error{Major: gss.BadMIC, Text: "the checksum does not match the message"}
	errNotWrap    = &gss.Error{Major: gss.DefectiveToken, Text: "not a Wrap token"}
	errWrapHeader = &gss.Error{Major: gss.DefectiveToken, Text: "a Wrap token of the wrong direction or key, or with a wrong count"}
	errShortWrap  = &gss.Error{Major: gss.DefectiveToken, Text: "a Wrap token that is too short"}
	errBadWrap    = &gss.Error{Major: gss.BadMIC, Text: "the token was changed, or not made with the context's keys"}
)
