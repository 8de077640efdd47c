package krb5

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/iana/flags"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
)

// Each direction has separate keys, by the usages of RFC 4121 §2. So a token that is sent back to
// its sender is refused, even if the receiver ignores the direction flag in the header.
func TestEachDirectionHasItsOwnKeys(t *testing.T) {
	const acceptorSeal, acceptorSign, initiatorSeal, initiatorSign = 22, 23, 24, 25
	for _, e := range allETypes {
		k := key{profile: e.profile()}.freshKey()
		initiator, acceptor := newContext(k, 0, 0), newContext(k, sentByAcceptor, 0)
		for _, c := range []struct {
			name  string
			got   *macKey
			usage uint32
		}{
			{"the initiator signs", initiator.sign, initiatorSign},
			{"the initiator verifies", initiator.verify, acceptorSign},
			{"the acceptor signs", acceptor.sign, acceptorSign},
			{"the acceptor verifies", acceptor.verify, initiatorSign},
		} {
			if want := k.checksumKey(c.usage); !bytes.Equal(c.got.inner, want.inner) {
				t.Errorf("%v: %s with another key than usage %d's", e, c.name, c.usage)
			}
		}
		// Only the key of the right direction decrypts a token.
		message := text(40)
		for _, c := range []struct{ from, to *context }{{initiator, acceptor}, {acceptor, initiator}} {
			token := wrap(c.from, message, 3)
			back, peerFlags := bytes.Clone(token), c.from.peerFlags
			c.from.peerFlags = c.from.flags // as if the header had no direction flag
			if _, _, err := c.from.Unwrap(back); err == nil {
				t.Errorf("%v: a sealed token is opened by its sender's key", e)
			}
			c.from.peerFlags = peerFlags
			if _, _, err := c.to.Unwrap(token); err != nil {
				t.Errorf("%v: a sealed token: %v", e, err)
			}
		}
	}
}

// A ticket without the client's name is refused (RFC 4120 §3.2.3).
func TestATicketWithoutAPrincipalIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		ticket func(*messages.EncTicketPart)
		holder func(*ticket)
	}{
		"no name": {
			func(p *messages.EncTicketPart) { p.CName = types.PrincipalName{NameType: 1} },
			func(k *ticket) { k.client = types.PrincipalName{NameType: 1} },
		},
		"no realm": {
			func(p *messages.EncTicketPart) { p.CRealm = "" },
			func(k *ticket) { k.realm = "" },
		},
	} {
		kdc, k := freshTicket(t, c.ticket)
		c.holder(k)
		_, token := start(t, k, Config{})
		got, _, err := kdc.acceptor().Accept(token, noon)
		var e *gss.Error
		if got != nil || !errors.As(err, &e) || e.Major != gss.DefectiveCred || e.Minor != badMatch.minor() {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// An AP-REQ with the option USE-SESSION-KEY is refused (RFC 4120 §3.7). Its ticket is encrypted
// with the session key of another ticket: this is user-to-user authentication.
func TestUserToUserAuthenticationIsRefused(t *testing.T) {
	kdc, k := freshTicket(t, nil)
	_, token := start(t, k, Config{})
	_, message, err := unframe(token)
	if err != nil {
		t.Fatal(err)
	}
	var req messages.APReq
	if err := req.Unmarshal(message); err != nil {
		t.Fatal(err)
	}
	types.SetFlag(&req.APOptions, flags.APOptionUseSessionKey)
	if message, err = req.Marshal(); err != nil {
		t.Fatal(err)
	}
	got, _, err := kdc.acceptor().Accept(frame(idAPReq, message), noon)
	var e *gss.Error
	if got != nil || !errors.As(err, &e) || e.Major != gss.NoCredential || e.Minor != noKey.minor() {
		t.Errorf("%v, %v", got, err)
	}
}

// An authenticator is stored for at least twice the skew, because its time may be one skew in the
// future (RFC 4120 §3.2.3).
func TestAuthenticatorsAreRememberedForTwiceTheSkew(t *testing.T) {
	const skew = 5 * time.Minute
	for before := time.Duration(0); before <= 2*skew; before += time.Minute {
		var r replayed
		r.storeNew([]byte("the first"), noon.Add(-before), skew) // creates the map
		if !r.storeNew([]byte("this one"), noon, skew) {
			t.Fatal("a new one is refused")
		}
		for after := time.Minute; after <= 2*skew; after += time.Minute {
			r.storeNew(fmt.Append(nil, "another ", after), noon.Add(after), skew)
		}
		if r.storeNew([]byte("this one"), noon.Add(2*skew), skew) {
			t.Errorf("%v behind the first, it was taken again after %v", before, 2*skew)
		}
	}
}

// If a ticket or an authenticator has authorization data of an unknown type, the request is
// refused, because the data may restrict the ticket. Within elements that a server may ignore, such
// data is ignored (RFC 4120 §5.2.6).
func TestUnknownAuthorizationDataIsRefused(t *testing.T) {
	type data = types.AuthorizationData
	const unknown = 4711
	element := func(kind int32) types.AuthorizationDataEntry {
		return types.AuthorizationDataEntry{ADType: kind, ADData: []byte{0x30, 0}}
	}
	for _, c := range []struct {
		name string
		data data
		ok   bool
	}{
		{"none", nil, true},
		{"an unknown kind", data{element(unknown)}, false},
		{"if relevant", data{element(1)}, true},
		{"of the KDC", data{element(4)}, true},
		{"for the KDC", data{element(8)}, true},
		{"one of several conditions", data{element(5)}, false},
		{"authorities that were not checked", data{element(9)}, false},
		{"an unknown kind behind one that is known", data{element(1), element(unknown)}, false},
	} {
		for _, inTicket := range []bool{true, false} {
			kdc, k := freshTicket(t, func(p *messages.EncTicketPart) {
				if inTicket {
					p.AuthorizationData = c.data
				}
			})
			token := requestWith(t, k, func(a *types.Authenticator) {
				if !inTicket {
					a.AuthorizationData = c.data
				}
			})
			got, _, err := kdc.acceptor().Accept(token, noon)
			var e *gss.Error
			if c.ok != (got != nil) || !c.ok && (!errors.As(err, &e) || e.Major != gss.DefectiveCred) {
				t.Errorf("%s, in the ticket %v: a context %v, %v", c.name, inTicket, got != nil, err)
			}
		}
	}
}

// requestWith returns a token with an AP-REQ whose authenticator was modified by change.
func requestWith(t *testing.T, k *ticket, change func(*types.Authenticator)) []byte {
	t.Helper()
	return frame(idAPReq, messageWith(t, k, change, func(*messages.APReq) {}))
}

// messageWith returns an AP-REQ without the header of a token. change modifies its authenticator,
// changeReq the AP-REQ itself.
func messageWith(t *testing.T, k *ticket, change func(*types.Authenticator), changeReq func(*messages.APReq)) []byte {
	t.Helper()
	a := types.Authenticator{
		AVNO: protocolVersion, CRealm: k.realm, CName: k.client, Cksum: encodeFlags(flagMutual), CTime: noon, SeqNumber: 1,
	}
	change(&a)
	plain, err := a.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	req := messages.APReq{PVNO: protocolVersion, MsgType: 14, APOptions: types.NewKrbFlags(), Ticket: k.Ticket,
		EncryptedAuthenticator: types.EncryptedData{EType: int32(k.session.etype), Cipher: k.session.encrypt(keyusage.AP_REQ_AUTHENTICATOR, plain)}}
	changeReq(&req)
	message, err := req.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return message
}

// Content that is encrypted with the right key is also checked (RFC 4120 §3.2.3, §5.5.1).
func TestRequestsOfAHolderThatAreRefused(t *testing.T) {
	type auth = types.Authenticator
	for _, c := range []struct {
		name   string
		auth   func(*auth)
		req    func(*messages.APReq)
		behind []byte
		major  gss.Major
		code   code
	}{
		{name: "something behind it", behind: []byte{0}, major: gss.DefectiveToken, code: wrongType},
		{name: "an authenticator of another version", auth: func(a *auth) { a.AVNO = 4 }, major: gss.DefectiveToken, code: badVersion},
		{name: "a million microseconds", auth: func(a *auth) { a.Cusec = 1_000_000 }, major: gss.DefectiveToken, code: wrongType},
		{name: "microseconds below none", auth: func(a *auth) { a.Cusec = -1 }, major: gss.DefectiveToken, code: wrongType},
		{name: "a subkey that is too short", auth: func(a *auth) {
			a.SubKey = types.EncryptionKey{KeyType: int32(AES256SHA1), KeyValue: make([]byte, 16)}
		}, major: gss.Failure, code: noEType},
		{name: "a subkey of a type that is not served", auth: func(a *auth) {
			a.SubKey = types.EncryptionKey{KeyType: 23, KeyValue: make([]byte, 16)}
		}, major: gss.Failure, code: noEType},
		{name: "an authenticator that says another encryption type", req: func(r *messages.APReq) { r.EncryptedAuthenticator.EType = int32(AES128SHA1) },
			major: gss.DefectiveCred, code: badIntegrity},
		{name: "a request of another version", req: func(r *messages.APReq) { r.PVNO = 4 }, major: gss.DefectiveToken},
		{name: "a ticket of another version", req: func(r *messages.APReq) { r.Ticket.TktVNO = 4 }, major: gss.DefectiveToken},
	} {
		kdc, k := freshTicket(t, nil)
		if c.auth == nil {
			c.auth = func(*auth) {}
		}
		if c.req == nil {
			c.req = func(*messages.APReq) {}
		}
		message := append(messageWith(t, k, c.auth, c.req), c.behind...)
		got, _, err := kdc.acceptor().Accept(frame(idAPReq, message), noon)
		var e *gss.Error
		if got != nil || !errors.As(err, &e) || e.Major != c.major || c.code != 0 && e.Minor != c.code.minor() {
			t.Errorf("%s: a context %v, %v; want %v and code %d", c.name, got != nil, err, c.major, c.code)
		}
	}
}

// A Wrap token with a wrong filler byte in its header is refused, even if it was made with the
// right key (RFC 4121 §4.2.6.2).
func TestFillerOfAWrapHeader(t *testing.T) {
	forEach(t, func(t *testing.T, from, to *context) {
		sealed := func(filler byte) []byte {
			before, _ := from.WrapSize()
			body := append(make([]byte, before, 200), text(30)...)
			putHeader(body, idWrap, from.flags|sealedFlag, from.number())
			body[3] = filler
			body = append(body, body[:headerSize]...)
			seal, _ := from.wrapKeys()
			return seal.seal(body, [][]byte{body[headerSize:]})
		}
		checkUnwrap(t, to, sealed(filler), text(30))
		if _, _, err := to.Unwrap(sealed(0)); err == nil {
			t.Error("another filler")
		}
	})
}

// A Wrap token that is not encrypted is refused, even if its checksum is right (RFC 4121 §4.2.4):
// RPCSEC_GSS uses Wrap only to encrypt (RFC 2203 §5.3.2.3).
func TestAWrapTokenThatIsNotEncryptedIsRefused(t *testing.T) {
	forEach(t, func(t *testing.T, from, to *context) {
		usage := uint32(keyusage.GSSAPI_INITIATOR_SEAL)
		if from.flags&sentByAcceptor != 0 {
			usage = keyusage.GSSAPI_ACCEPTOR_SEAL
		}
		token := append(make([]byte, headerSize, 200), text(100)...)
		putHeader(token, idWrap, from.flags, from.number())
		token = from.base.checksumKey(usage).appendMAC(token, token[headerSize:], nil, token[:headerSize])
		binary.BigEndian.PutUint16(token[4:], uint16(from.base.mac))
		if _, _, err := to.Unwrap(token); err != errWrapHeader {
			t.Error(err)
		}
	})
}

// The first sequence number is below 2^30, because some initiators take a longer number for a
// negative one.
func TestFirstNumbersAreOfThirtyBits(t *testing.T) {
	for range 64 {
		if n := freshSequence(); n >= 1<<30 {
			t.Fatalf("%#x", n)
		}
	}
}
