package krb5

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/jcmturner/gokrb5/v8/iana/errorcode"
	"github.com/jcmturner/gokrb5/v8/krberror"
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

// answers lists the KDC's errors that have a remedy (RFC 4120 §7.5.9). The field says is the text
// with the error and its remedy. If byCache is set, it replaces that text for an initiator that
// uses a credential cache.
var answers = []struct {
	code          int32
	says, byCache string
}{
	{code: errorcode.KDC_ERR_S_PRINCIPAL_UNKNOWN,
		says: "the KDC knows no such service: name the server as its key does (klist -k at the server), or make the key with kadmin's addprinc -randkey and ktadd"},
	{code: errorcode.KDC_ERR_C_PRINCIPAL_UNKNOWN, says: "the KDC does not know the principal of the keytab: make it with kadmin's addprinc -randkey and ktadd", byCache: "the KDC does not know the principal of the credential cache any more: use kinit"},
	{code: errorcode.KDC_ERR_PREAUTH_FAILED, says: "the KDC has another key than the keytab: write the keytab anew with kadmin's ktadd"},
	{code: errorcode.KDC_ERR_ETYPE_NOSUPP, says: "the KDC has no key of an encryption type that is served here and permitted by krb5.conf: make keys of AES with kadmin's cpw"},
	{code: errorcode.KRB_AP_ERR_TKT_EXPIRED, says: "the ticket has ended: use kinit"},
	{code: errorcode.KRB_AP_ERR_SKEW, says: "the clocks of this machine and of the KDC differ by too much: set them"},
	{code: errorcode.KDC_ERR_CLIENT_REVOKED, says: "the KDC has locked the principal: see kadmin's getprinc"},
}

// explained replaces an error of the Kerberos library by one that says what to do, if the error has
// a code that is in answers, or if no KDC could be reached. It returns any other error unchanged.
func (m *Mechanism) explained(err error) error {
	var e krberror.Krberror
	if !errors.As(err, &e) {
		return err
	}
	text := e.Error()
	for _, a := range answers {
		if !strings.Contains(text, errorcode.Lookup(a.code)) {
			continue
		}
		says := a.says
		if m.config.Cache != "" && a.byCache != "" {
			says = a.byCache
		}
		return errors.New(says)
	}
	if e.RootCause == krberror.NetworkingError {
		// The library's text lists all attempts. The last error of the last attempt is the most
		// useful.
		last := text[strings.LastIndex(text, ": ")+len(": "):]
		return fmt.Errorf("no KDC is reached: see the lines kdc of %s, and whether one runs there (%s)", m.config.Conf, strings.Trim(last, "()"))
	}
	return err
}

// pathless returns a file error without operation and path, for messages that contain the path
// already.
func pathless(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
