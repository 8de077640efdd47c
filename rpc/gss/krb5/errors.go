package krb5

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
)

// code is an error code of Kerberos (RFC 4120 §7.5.9).
type code int32

// The codes that contexts fail with.
const (
	badIntegrity    code = 31
	ticketExpired   code = 32
	ticketNotYet    code = 33
	repeated        code = 34
	badMatch        code = 36
	skewed          code = 37
	badVersion      code = 39
	wrongType       code = 40
	noKey           code = 45
	mutualFailed    code = 46
	wrongChecksum   code = 50
	pathNotAccepted code = 51
	noEType         code = 14
	generic         code = 60
)

// minorBase is what the C libraries of Kerberos add to a code to make a minor
// status of it; initiators show it in words.
const minorBase = -1765328384

func (c code) minor() uint32 { return uint32(int64(minorBase) + int64(c)) }

// maxText is how long the text of an error gets, in bytes: it may have names from a
// peer's token, and is for logs.
const maxText = 512

// failed makes the error of an exchange.
func failed(major gss.Major, c code, format string, args ...any) *gss.Error {
	text := fmt.Sprintf(format, args...)
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "..."
	}
	return &gss.Error{Major: major, Minor: c.minor(), Text: text}
}

// codeOf is the code that an error of failed was made from, generic for others.
func codeOf(err error) code {
	var e *gss.Error
	if errors.As(err, &e) {
		if c := code(int64(int32(e.Minor)) - minorBase); c > 0 && c < 128 {
			return c
		}
	}
	return generic
}

// guarded calls f, which is or uses code that may panic at bytes from elsewhere, and
// makes an error of a panic.
func guarded(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("malformed: %v", r)
		}
	}()
	return f()
}
