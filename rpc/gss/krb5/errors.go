package krb5

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
)

// code is an error code of Kerberos (RFC 4120 §7.5.9).
type code int32

// The codes that this package uses.
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

// minorBase is the number that the C libraries of Kerberos add to a code to make a minor status.
// This package uses the same minor statuses, so that initiators can print them as text.
const minorBase = -1765328384

func (c code) minor() uint32 { return uint32(int64(minorBase) + int64(c)) }

// maxText is the longest text of an error, in bytes. It is limited because the text may contain
// names from a peer's token, and is written to logs.
const maxText = 512

// failed returns a *gss.Error with the given statuses and text.
func failed(major gss.Major, c code, format string, args ...any) *gss.Error {
	text := fmt.Sprintf(format, args...)
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "..."
	}
	return &gss.Error{Major: major, Minor: c.minor(), Text: text}
}

// codeOf returns the code of Kerberos in a *gss.Error, or generic if err contains no such code.
func codeOf(err error) code {
	var e *gss.Error
	if errors.As(err, &e) {
		if c := code(int64(int32(e.Minor)) - minorBase); c > 0 && c < 128 {
			return c
		}
	}
	return generic
}

// guarded calls f. If f panics, guarded returns an error. It is for library code that may panic on
// malformed bytes from a peer or a file.
func guarded(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("malformed: %v", r)
		}
	}()
	return f()
}
