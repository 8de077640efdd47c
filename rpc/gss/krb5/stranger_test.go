package krb5

import (
	"errors"
	"strings"
	"testing"

	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/types"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
)

// The acceptor tries fewer keys on a longer ticket, because each trial takes time for each byte,
// and anyone can send a ticket.
func TestLongTicketsAreTriedWithFewKeys(t *testing.T) {
	for _, c := range []struct{ keys, length, want int }{
		{3, 500, 3}, {100, 500, 64}, {100, 2 << 10, 64}, {100, 16 << 10, 8}, {100, 60 << 10, 4}, {100, 1 << 20, 4}, {2, 1 << 20, 2}, {100, 0, 64},
	} {
		if n := trials(c.keys, c.length); n != c.want {
			t.Errorf("a ticket of %d bytes is tried with %d of %d keys, want %d", c.length, n, c.keys, c.want)
		}
	}
	// The key with the ticket's principal and version is tried first.
	kdc, k := freshTicket(t, nil)
	keys, err := kdc.acceptor().serviceKeys()
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		old := keys[0]
		old.version += 7
		old.tickets = func() *cipherKeys { return kdc.key.freshKey().cipherKeys(keyusage.KDC_REP_TICKET) }
		keys = append([]serviceKey{old}, keys...)
	}
	k.EncPart.KVNO = int(keys[10].version)
	long := k.Ticket
	long.EncPart.Cipher = append(append([]byte{}, k.EncPart.Cipher...), make([]byte, 60<<10)...)
	if _, _, err := openTicket(&long, keys); err == nil {
		t.Error("a ticket with something behind it is opened")
	}
	if _, by, err := openTicket(&k.Ticket, keys); err != nil || by.version != keys[10].version {
		t.Errorf("%v", err)
	}
}

// A token of a client without a ticket causes neither a long log line nor a long answer.
func TestErrorsAreShort(t *testing.T) {
	kdc, k := freshTicket(t, nil)
	for _, name := range []types.PrincipalName{
		{NameType: 2, NameString: []string{strings.Repeat("\xc3\xa4", 20_000)}},
		{NameType: 2, NameString: make([]string, 20_000)},
	} {
		k.SName, k.EncPart.EType = name, 23
		_, token := start(t, k, Config{})
		_, reply, err := kdc.acceptor().Accept(token, noon)
		var e *gss.Error
		if !errors.As(err, &e) || len(e.Text) > maxText+3 || len(reply) > 0 {
			t.Errorf("%d bytes, a token of %d: %.100v", len(e.Text), len(reply), err)
		}
	}
}
