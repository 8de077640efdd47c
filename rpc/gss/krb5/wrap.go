package krb5

import (
	"crypto/rand"
	"sync"
)

// WrapSize implements gss.Context. In an encrypted token, header and confounder come before the
// message, and the encrypted copy of the header and the integrity check come after it. In another
// token, the header comes before the message, and the checksum after it.
func (c *context) WrapSize(sealed bool) (before, behind int) {
	if sealed {
		return headerSize + blockSize, headerSize + c.profile.mac
	}
	return headerSize, c.profile.mac
}

// Wrap implements gss.Context (RFC 4121 §4.2.4, §4.2.6.2). It does not rotate the token (RRC), and
// adds no padding (EC of an encrypted token).
func (c *context) Wrap(sealed bool, before, behind []byte, pieces ...[]byte) {
	if b, e := c.WrapSize(sealed); len(before) != b || len(behind) != e {
		panic("krb5: Wrap with other room than WrapSize says")
	}
	if sealed {
		c.wrapSealed(before, behind, pieces)
	} else {
		c.wrapPlain(before, behind, pieces)
	}
}

func (c *context) wrapSealed(before, behind []byte, pieces [][]byte) {
	header, confounder := before[:headerSize], before[headerSize:]
	putHeader(header, idWrap, c.flags|sealedFlag, c.number())
	rand.Read(confounder)
	copied := behind[:headerSize]
	copy(copied, header)
	all := lists.Get().(*list)
	all.pieces = append(all.pieces, confounder)
	all.pieces = append(all.pieces, pieces...)
	all.pieces = append(all.pieces, copied)
	c.wrapKeys().seal.seal(copied, all.pieces)
	all.giveBack()
}

func (c *context) wrapPlain(header, behind []byte, pieces [][]byte) {
	putHeader(header, idWrap, c.flags, c.number())
	k := c.wrapKeys().plain
	h := k.start()
	h.writeAll(pieces)
	h.Write(header)
	k.appendMAC(behind[:0], h)
	putExtraCount(header, c.profile.mac)
}

// Unwrap implements gss.Context (RFC 4121 §4.2.4, §4.2.5, §4.2.6.2).
func (c *context) Unwrap(token []byte) (from, to int, sealed bool, err error) {
	if len(token) < headerSize || !hasID(token, idWrap) {
		return 0, 0, false, errNotWrap
	}
	header := token[:headerSize]
	sealed = header[2]&sealedFlag != 0
	if header[2]&knownFlags&^sealedFlag != c.peerFlags || header[3] != filler {
		return 0, 0, false, errWrapHeader
	}
	rotateLeft(token[headerSize:], rightRotation(header))
	putRightRotation(header, 0)
	if sealed {
		from, to, err = c.unwrapSealed(header, token)
	} else {
		from, to, err = c.unwrapPlain(header, token)
	}
	if err != nil {
		return 0, 0, false, err
	}
	return from, to, sealed, nil
}

func (c *context) unwrapSealed(header, token []byte) (from, to int, err error) {
	end := len(token) - c.profile.mac
	from, to = headerSize+blockSize, end-headerSize-extraCount(header)
	if to < from {
		return 0, 0, errShortWrap
	}
	one := lists.Get().(*list)
	one.pieces = append(one.pieces, token[headerSize:end])
	ok := c.wrapKeys().open.open(one.pieces, token[end:])
	one.giveBack()
	// Compare the header with its encrypted copy, which is authentic. The sender made the copy
	// before it rotated the token.
	if !ok || string(token[end-headerSize:end]) != string(header) {
		return 0, 0, errBadWrap
	}
	return from, to, nil
}

func (c *context) unwrapPlain(header, token []byte) (from, to int, err error) {
	if extraCount(header) != c.profile.mac {
		return 0, 0, errWrapHeader
	}
	from, to = headerSize, len(token)-c.profile.mac
	if to < from {
		return 0, 0, errShortWrap
	}
	putExtraCount(header, 0)
	k := c.wrapKeys().unplain
	h := k.start()
	h.Write(token[from:to])
	h.Write(header)
	if !k.matches(token[to:], h) {
		return 0, 0, errBadWrap
	}
	return from, to, nil
}

// A list is reusable memory for a slice of pieces.
type list struct{ pieces [][]byte }

// lists is a pool of unused lists. Lists with memory for more than maxList pieces are not reused.
var lists = sync.Pool{New: func() any { return &list{make([][]byte, 0, 16)} }}

const maxList = 1024

func (l *list) giveBack() {
	clear(l.pieces)
	l.pieces = l.pieces[:0]
	if cap(l.pieces) <= maxList {
		lists.Put(l)
	}
}
