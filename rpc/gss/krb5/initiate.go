package krb5

import (
	stdcontext "context"
	"fmt"
	"strings"
	"time"

	"github.com/jcmturner/gokrb5/v8/iana/errorcode"
	"github.com/jcmturner/gokrb5/v8/iana/flags"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
)

// initiator makes one context. It implements gss.Initiator.
type initiator struct {
	config  *Config
	ticket  *ticket
	tickets *tickets // stores the ticket if the acceptor accepts it
	// sent is true once the AP-REQ was made. The next four fields are values in it. done is true
	// once the initiator has succeeded or failed.
	sent     bool
	ctime    time.Time
	cusec    int
	subkey   key
	sequence uint32
	done     bool
}

// Initiate implements gss.Mechanism. The target is SERVICE@HOST, or a principal
// SERVICE/HOST@REALM.
func (m *Mechanism) Initiate(ctx stdcontext.Context, target string) (gss.Initiator, error) {
	server, realm, err := parseTarget(target)
	if err != nil {
		return nil, failed(gss.BadName, generic, "%v", err)
	}
	t, err := m.ticketFor(ctx, server, realm, time.Now())
	if err != nil {
		return nil, seamError(err, gss.NoCredential, generic)
	}
	return &initiator{config: &m.config, ticket: t, tickets: &m.tickets}, nil
}

// parseTarget splits a target into components and realm. The realm is "" if the target has none.
func parseTarget(target string) (server []string, realm string, err error) {
	name, rest, found := strings.Cut(target, "@")
	if !strings.Contains(name, "/") {
		if !found || name == "" || rest == "" || strings.ContainsAny(rest, "@/") {
			return nil, "", fmt.Errorf("%q is not a service such as nfs@server.example.com", target)
		}
		return []string{name, rest}, "", nil
	}
	return parsePrincipal(target)
}

func (i *initiator) Step(token []byte, now time.Time) ([]byte, gss.Context, error) {
	switch {
	case i.done || i.sent == (len(token) == 0):
		i.done = true
		return nil, nil, failed(gss.DefectiveToken, generic, "a token of the acceptor where there should be none, or none where there should be one")
	case !i.sent:
		return i.start(now)
	}
	i.done = true
	c, err := i.finish(token)
	if err != nil {
		return nil, nil, err
	}
	return nil, c, nil
}

// start returns the AP-REQ. Without mutual authentication, it also returns the context.
func (i *initiator) start(now time.Time) ([]byte, gss.Context, error) {
	now = now.UTC()
	i.sent = true
	i.ctime, i.cusec = now.Truncate(time.Second), now.Nanosecond()/1000
	i.subkey = i.ticket.session.freshKey()
	wanted := uint32(flagReplay | flagSequence | flagConf | flagInteg)
	if !i.config.OneSided {
		wanted |= flagMutual
	}
	i.sequence = freshSequence()
	token, err := i.request(wanted)
	if err != nil {
		i.done = true
		return nil, nil, failed(gss.Failure, generic, "making the AP-REQ: %v", err)
	}
	if !i.config.OneSided {
		return token, nil, nil
	}
	i.done = true
	i.tickets.put(i.ticket) // without mutual authentication, the acceptor does not report whether it accepted the ticket
	return token, i.context(i.subkey, 0), nil
}

// request encodes the AP-REQ (RFC 4120 §5.5.1, RFC 4121 §4.1).
func (i *initiator) request(wanted uint32) (token []byte, err error) {
	t := i.ticket
	a := types.Authenticator{
		AVNO: protocolVersion, CRealm: t.realm, CName: t.client, Cksum: encodeFlags(wanted),
		CTime: i.ctime, Cusec: i.cusec, SeqNumber: int64(i.sequence),
		SubKey: types.EncryptionKey{KeyType: int32(i.subkey.etype), KeyValue: i.subkey.value},
	}
	err = guarded(func() error {
		plain, err := a.Marshal()
		if err != nil {
			return err
		}
		req := messages.APReq{
			PVNO: protocolVersion, MsgType: 14, APOptions: types.NewKrbFlags(), Ticket: t.Ticket,
			EncryptedAuthenticator: types.EncryptedData{
				EType: int32(t.session.etype), Cipher: t.session.encrypt(keyusage.AP_REQ_AUTHENTICATOR, plain),
			},
		}
		if wanted&flagMutual != 0 {
			types.SetFlag(&req.APOptions, flags.APOptionMutualRequired)
		}
		message, err := req.Marshal()
		token = frame(idAPReq, message)
		return err
	})
	return token, err
}

// finish returns the context that the acceptor's token establishes.
func (i *initiator) finish(token []byte) (gss.Context, error) {
	id, message, err := unframe(token)
	if err != nil {
		return nil, err
	}
	switch id {
	case idKRBError:
		return nil, refusal(message)
	case idAPRep:
	default:
		return nil, failed(gss.DefectiveToken, wrongType, "the token is not an AP-REP but %#04x", id)
	}
	r, err := parseAPRep(message, i.ticket.session)
	if err != nil {
		return nil, err
	}
	subkey, flags := i.subkey, byte(0)
	if value := r.Subkey.KeyValue; len(value) > 0 {
		flags = acceptorSubkey
		if subkey, err = newKey(EType(r.Subkey.KeyType), value); err != nil {
			return nil, failed(gss.Failure, noEType, "the acceptor's subkey: %v", err)
		}
	}
	if !r.CTime.Equal(i.ctime) || r.Cusec != i.cusec {
		return nil, failed(gss.Failure, mutualFailed, "the AP-REP answers another AP-REQ")
	}
	i.tickets.put(i.ticket)
	return i.context(subkey, flags), nil
}

// context returns the initiator's side of the context. base and flags are as in newContext.
func (i *initiator) context(base key, flags byte) gss.Context {
	c, t := newContext(base, flags, uint64(i.sequence)), i.ticket
	c.principal, c.own = principalText(t.SName.NameString, t.Realm), principalText(t.client.NameString, t.realm)
	c.expiry = t.end
	return c
}

// refusal returns the error for a KRB-ERROR.
func refusal(message []byte) error {
	var e messages.KRBError
	if err := guarded(func() error { return e.Unmarshal(message) }); err != nil {
		return failed(gss.DefectiveToken, wrongType, "the KRB-ERROR cannot be parsed: %v", err)
	}
	words := errorcode.Lookup(e.ErrorCode)
	if e.EText != "" {
		words += ", " + e.EText
	}
	return failed(gss.Failure, code(e.ErrorCode), "the acceptor refuses: %s", words)
}
