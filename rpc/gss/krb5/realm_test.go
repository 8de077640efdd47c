package krb5

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jcmturner/gofork/encoding/asn1"
	"github.com/jcmturner/gokrb5/v8/asn1tools"
	"github.com/jcmturner/gokrb5/v8/iana/asnAppTag"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

const (
	testRealm = "EXAMPLE.ORG"
	testHost  = "server.example.org"
	target    = "nfs@" + testHost
)

// noon is the present time in the tests.
var noon = time.Date(2030, 6, 1, 12, 0, 0, 0, time.UTC)

// A testKDC makes tickets for one service, without a network.
type testKDC struct {
	path string // the service's keytab
	key  key
}

// writeKeytab writes a keytab with a key of each type for a principal.
func writeKeytab(t testing.TB, path, principal, password string, types ...EType) {
	t.Helper()
	kt := keytab.New()
	for _, e := range types {
		if err := kt.AddEntry(principal, testRealm, password, noon, 3, int32(e)); err != nil {
			t.Fatal(err)
		}
	}
	content, err := kt.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func newTestKDC(t testing.TB, e EType) *testKDC {
	t.Helper()
	kdc := &testKDC{path: filepath.Join(t.TempDir(), "keytab")}
	writeKeytab(t, kdc.path, "nfs/"+testHost, "secret", e)
	kdc.reload(t, e)
	return kdc
}

// reload reads the service's key from the keytab.
func (kdc *testKDC) reload(t testing.TB, e EType) {
	t.Helper()
	kt, err := keytab.Load(kdc.path)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range kt.Entries {
		if entry.Key.KeyType == int32(e) {
			kdc.key = key{e.profile(), entry.Key.KeyValue}
		}
	}
}

// ordinary returns the content of a valid ticket with the given session key.
func ordinary(session key) messages.EncTicketPart {
	return messages.EncTicketPart{
		Flags:  types.NewKrbFlags(),
		Key:    types.EncryptionKey{KeyType: int32(session.etype), KeyValue: session.value},
		CRealm: testRealm, CName: types.NewPrincipalName(1, "alice"),
		AuthTime: noon.Add(-time.Hour), StartTime: noon.Add(-time.Hour), EndTime: noon.Add(9 * time.Hour),
	}
}

// issue returns a ticket for the service, with the encrypted part part.
func (kdc *testKDC) issue(t testing.TB, part messages.EncTicketPart, sname ...string) *ticket {
	t.Helper()
	content, err := asn1.Marshal(part)
	if err != nil {
		t.Fatal(err)
	}
	if sname == nil {
		sname = []string{"nfs", testHost}
	}
	return &ticket{
		Ticket: messages.Ticket{
			TktVNO: protocolVersion, Realm: testRealm, SName: types.PrincipalName{NameType: 3, NameString: sname},
			EncPart: types.EncryptedData{
				EType: int32(kdc.key.etype), KVNO: 3,
				Cipher: kdc.key.encrypt(keyusage.KDC_REP_TICKET, asn1tools.AddASNAppTag(content, asnAppTag.EncTicketPart)),
			},
		},
		session: key{EType(part.Key.KeyType).profile(), part.Key.KeyValue},
		end:     part.EndTime, client: part.CName, realm: part.CRealm,
	}
}

// acceptor returns a Mechanism with the service's keytab.
func (kdc *testKDC) acceptor() *Mechanism { return New(Config{Keytab: kdc.path}) }

// start returns an initiator with the ticket k, and its AP-REQ.
func start(t testing.TB, k *ticket, c Config) (*initiator, []byte) {
	t.Helper()
	i := &initiator{config: &c, ticket: k, tickets: new(tickets)}
	token, _, err := i.Step(nil, noon)
	if err != nil {
		t.Fatal(err)
	}
	return i, token
}
