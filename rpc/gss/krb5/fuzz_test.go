package krb5

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
)

func FuzzVerifyMIC(f *testing.F) {
	a, b := pair(f, AES128SHA1, true)
	message := text(50)
	f.Add(a.MIC(nil, message))
	f.Fuzz(func(t *testing.T, token []byte) {
		if err := b.VerifyMIC(token, text(51)); err == nil {
			t.Error("a forged MIC is taken")
		}
	})
}

func FuzzUnwrap(f *testing.F) {
	var ends []*context
	for i, e := range allETypes {
		a, b := pair(f, e, i%2 == 0)
		ends = append(ends, b)
		token := wrap(a, text(20), 1)
		f.Add(i, rotated(token, 3))
		token[headerSize] ^= 1
		f.Add(i, token)
	}
	f.Fuzz(func(t *testing.T, which int, token []byte) {
		from, to, err := ends[uint(which)%uint(len(ends))].Unwrap(token)
		if err == nil && (from < headerSize || to < from || to > len(token)) {
			t.Errorf("from %d to %d of %d bytes", from, to, len(token))
		}
	})
}

func FuzzAccept(f *testing.F) {
	kdc, k := freshTicket(f, nil)
	m := kdc.acceptor()
	_, token := start(f, k, Config{})
	f.Add(token)
	f.Add(frame(idAPReq, nil))
	f.Add(frame(idAPRep, token))
	f.Add(token[:40])
	f.Fuzz(func(t *testing.T, token []byte) {
		c, _, err := m.Accept(token, noon)
		var e *gss.Error
		if (c == nil) != errors.As(err, &e) {
			t.Errorf("%v, %v", c, err)
		}
	})
}

func FuzzAcceptBehindTheEncryption(f *testing.F) {
	kdc, k := freshTicket(f, nil)
	keys, err := kdc.acceptor().serviceKeys()
	if err != nil {
		f.Fatal(err)
	}
	_, token := start(f, k, Config{})
	req, err := parseAPReq(token)
	if err != nil {
		f.Fatal(err)
	}
	ticketPart, _ := kdc.key.decrypt(keyusage.KDC_REP_TICKET, req.Ticket.EncPart.Cipher)
	authenticator, _ := k.session.decrypt(keyusage.AP_REQ_AUTHENTICATOR, req.EncryptedAuthenticator.Cipher)
	f.Add(ticketPart, authenticator)
	f.Fuzz(func(t *testing.T, ticketPart, authenticator []byte) {
		now := *req
		now.Ticket.EncPart.Cipher = kdc.key.encrypt(keyusage.KDC_REP_TICKET, ticketPart)
		now.EncryptedAuthenticator.Cipher = k.session.encrypt(keyusage.AP_REQ_AUTHENTICATOR, authenticator)
		if part, _, err := openTicket(&now.Ticket, keys); err == nil {
			_ = checkTicket(part, noon, time.Minute)
		}
		whole := ordinary(k.session)
		if a, err := openAuthenticator(&now, &whole, k.session, noon, time.Minute); err == nil {
			_, _ = parseFlags(a.Cksum)
		}
	})
}

func FuzzInitiatorTakesReply(f *testing.F) {
	kdc, k := freshTicket(f, nil)
	i, token := start(f, k, Config{})
	_, reply, err := kdc.acceptor().Accept(token, noon)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(reply)
	f.Add(errorToken(k.Realm, k.SName, skewed, noon))
	f.Fuzz(func(t *testing.T, reply []byte) {
		again := *i
		_, c, err := again.Step(reply, noon)
		if (c == nil) == (err == nil) {
			t.Errorf("%v, %v", c, err)
		}
	})
}

func FuzzKeytab(f *testing.F) {
	path := filepath.Join(f.TempDir(), "keytab")
	writeKeytab(f, path, "nfs/"+testHost, "secret", allETypes...)
	content, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(content)
	f.Fuzz(func(t *testing.T, content []byte) { _, _ = parseKeytab(content) })
}
