package krb5

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/iana/flags"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
)

// exchange checks that each of two contexts accepts the tokens that the other one makes.
func exchange(t *testing.T, a, b gss.Context) {
	t.Helper()
	for _, way := range []struct{ from, to gss.Context }{{a, b}, {b, a}} {
		from, to := way.from.(*context), way.to.(*context)
		if err := to.VerifyMIC(from.MIC(nil, text(100)), text(100)); err != nil {
			t.Error(err)
		}
		checkUnwrap(t, to, wrap(from, text(100), 1), text(100))
	}
}

func TestInitiatorAndAcceptorMakeAContext(t *testing.T) {
	for _, service := range allETypes {
		for _, session := range allETypes {
			for _, oneSided := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v/%v/oneSided=%v", service, session, oneSided), func(t *testing.T) {
					kdc := newTestKDC(t, service)
					k := kdc.issue(t, ordinary(key{profile: session.profile()}.freshKey()))
					i, token := start(t, k, Config{OneSided: oneSided})
					acceptor, reply, err := kdc.acceptor().Accept(token, noon)
					if err != nil {
						t.Fatal(err)
					}
					if oneSided != (reply == nil) {
						t.Fatalf("the reply has %d bytes", len(reply))
					}
					var c gss.Context = i.context(i.subkey, 0)
					if !oneSided {
						if _, c, err = i.Step(reply, noon); err != nil {
							t.Fatal(err)
						}
					}
					if got := acceptor.Principal(); got != "alice@EXAMPLE.ORG" {
						t.Errorf("the acceptor's peer is %s", got)
					}
					if got := c.Principal(); got != "nfs/server.example.org@EXAMPLE.ORG" {
						t.Errorf("the initiator's peer is %s", got)
					}
					if !acceptor.Expiry().Equal(k.end.Add(5*time.Minute)) || !c.Expiry().Equal(k.end) {
						t.Errorf("the ends expire at %v and %v, the ticket at %v", acceptor.Expiry(), c.Expiry(), k.end)
					}
					if has := acceptor.(*context).flags&acceptorSubkey != 0; has == oneSided {
						t.Errorf("a subkey of the acceptor: %v", has)
					}
					exchange(t, c, acceptor)
				})
			}
		}
	}
}

func freshTicket(t testing.TB, change func(*messages.EncTicketPart)) (*testKDC, *ticket) {
	t.Helper()
	kdc := newTestKDC(t, AES256SHA1)
	part := ordinary(key{profile: AES256SHA1.profile()}.freshKey())
	if change != nil {
		change(&part)
	}
	return kdc, kdc.issue(t, part)
}

// If an AP-REQ is sent again after a restart of the acceptor, the second context has another key
// than the first.
func TestEachContextHasAFreshSubkey(t *testing.T) {
	kdc, k := freshTicket(t, nil)
	i, token := start(t, k, Config{})
	_, reply, err := kdc.acceptor().Accept(token, noon)
	if err != nil {
		t.Fatal(err)
	}
	again, _, err := kdc.acceptor().Accept(token, noon)
	if err != nil {
		t.Fatal(err)
	}
	_, c, err := i.Step(reply, noon)
	if err != nil {
		t.Fatal(err)
	}
	if again.VerifyMIC(c.MIC(nil)) == nil {
		t.Error("two contexts have the same key")
	}
}

func TestAcceptRefuses(t *testing.T) {
	type part = messages.EncTicketPart
	for _, c := range []struct {
		name   string
		ticket func(*part)
		holder func(*ticket) // changes the ticket on the client's side
		now    time.Time
		major  gss.Major
		code   code
	}{
		{name: "a ticket that ended", now: noon.Add(9*time.Hour + 6*time.Minute), major: gss.CredentialsExpired, code: ticketExpired},
		{name: "a ticket of later", ticket: func(p *part) { p.StartTime = noon.Add(time.Hour) }, major: gss.CredentialsExpired, code: ticketNotYet},
		{name: "a ticket without a start, of later", ticket: func(p *part) { p.StartTime, p.AuthTime = time.Time{}, noon.Add(time.Hour) }, major: gss.CredentialsExpired, code: ticketNotYet},
		{name: "a ticket that was not validated", ticket: func(p *part) { types.SetFlag(&p.Flags, flags.Invalid) }, major: gss.DefectiveCred, code: ticketNotYet},
		{name: "a path that was not checked", ticket: func(p *part) { p.Transited.Contents = []byte("X.ORG") }, major: gss.DefectiveCred, code: pathNotAccepted},
		{name: "a clock six minutes ahead", now: noon.Add(-6 * time.Minute), major: gss.CredentialsExpired, code: skewed},
		{name: "a clock six minutes behind", now: noon.Add(6 * time.Minute), major: gss.CredentialsExpired, code: skewed},
		{name: "another name", holder: func(k *ticket) { k.client = types.NewPrincipalName(1, "root") }, major: gss.DefectiveCred, code: badMatch},
		{name: "another realm", holder: func(k *ticket) { k.realm = "EVIL.ORG" }, major: gss.DefectiveCred, code: badMatch},
		{name: "a service of another realm", holder: func(k *ticket) { k.Realm = "EVIL.ORG" }, major: gss.NoCredential, code: noKey},
		{name: "another session key", holder: func(k *ticket) { k.session = k.session.freshKey() }, major: gss.DefectiveCred, code: badIntegrity},
		{name: "another service key", holder: func(k *ticket) { k.EncPart.Cipher[20] ^= 1 }, major: gss.NoCredential, code: badIntegrity},
		{name: "a type of key that we have not", holder: func(k *ticket) { k.EncPart.EType = 23 }, major: gss.NoCredential, code: noKey},
	} {
		t.Run(c.name, func(t *testing.T) {
			kdc, k := freshTicket(t, c.ticket)
			if c.holder != nil {
				c.holder(k)
			}
			if c.now.IsZero() {
				c.now = noon
			}
			_, token := start(t, k, Config{})
			got, reply, err := kdc.acceptor().Accept(token, c.now)
			var e *gss.Error
			if got != nil || !errors.As(err, &e) || e.Major != c.major || e.Minor != c.code.minor() {
				t.Fatalf("%v, %v; want %v and code %d", got, err, c.major, c.code)
			}
			// The initiator gets the reason in a KRB-ERROR.
			i := &initiator{config: &Config{}, ticket: k, tickets: new(tickets), sent: true}
			if _, _, err := i.Step(reply, noon); !errors.As(err, &e) || e.Minor != c.code.minor() || e.Major != gss.Failure {
				t.Errorf("the initiator says: %v", err)
			}
		})
	}
}

// The answer to a token of an unknown kind is a KRB-ERROR, and the initiator may send another token
// (RFC 4121 §4.1). A token of a known kind that is no AP-REQ gets no answer.
func TestUnknownKindsOfTokens(t *testing.T) {
	kdc, k := freshTicket(t, nil)
	for id, known := range map[uint16]bool{0x0104: false, 0x0404: false, 0xffff: false, idAPRep: true, idKRBError: true} {
		c, reply, err := kdc.acceptor().Accept(frame(id, []byte("something")), noon)
		var e *gss.Error
		if c != nil || !errors.As(err, &e) || e.Minor != wrongType.minor() || (e.Major == gss.ContinueNeeded) == known || (reply == nil) != known {
			t.Fatalf("%#04x: %v, %x", id, err, reply)
		}
		if known {
			continue
		}
		i := &initiator{config: &Config{}, ticket: k, tickets: new(tickets), sent: true}
		if _, _, err := i.Step(reply, noon); !errors.As(err, &e) || e.Minor != wrongType.minor() {
			t.Errorf("%#04x: the initiator says: %v", id, err)
		}
	}
	none := New(Config{Keytab: "/nonexistent"})
	if _, reply, err := none.Accept(frame(0x0104, nil), noon); err == nil || reply != nil {
		t.Errorf("without a keytab: %x, %v", reply, err)
	}
}

func TestAcceptAllowsClocksFiveMinutesApart(t *testing.T) {
	for _, now := range []time.Time{noon.Add(-5 * time.Minute), noon.Add(5 * time.Minute)} {
		kdc, k := freshTicket(t, nil)
		_, token := start(t, k, Config{})
		if _, _, err := kdc.acceptor().Accept(token, now); err != nil {
			t.Error(err)
		}
	}
}

func TestAPathThatOurKDCCheckedIsTaken(t *testing.T) {
	kdc, k := freshTicket(t, func(p *messages.EncTicketPart) {
		p.Transited.Contents = []byte("X.ORG")
		types.SetFlag(&p.Flags, flags.TransitedPolicyChecked)
		p.CRealm = "OTHER.ORG"
	})
	_, token := start(t, k, Config{})
	c, _, err := kdc.acceptor().Accept(token, noon)
	if err != nil || c.Principal() != "alice@OTHER.ORG" {
		t.Errorf("%v, %v", c, err)
	}
}

func TestARepeatedRequestIsRefused(t *testing.T) {
	kdc, k := freshTicket(t, nil)
	m := kdc.acceptor()
	_, token := start(t, k, Config{OneSided: true})
	if _, _, err := m.Accept(token, noon); err != nil {
		t.Fatal(err)
	}
	for _, later := range []time.Duration{0, time.Minute, 5 * time.Minute} {
		var e *gss.Error
		if _, _, err := m.Accept(token, noon.Add(later)); !errors.As(err, &e) || e.Major != gss.DuplicateToken {
			t.Errorf("after %v: %v", later, err)
		}
	}
}

func TestReplayCacheIsBounded(t *testing.T) {
	var r replayed
	for i := range 3 * maxReplays {
		if !r.storeNew(fmt.Append(nil, i), noon, time.Minute) {
			t.Fatal("something new is taken for a repetition")
		}
		if n := len(r.young) + len(r.old); n > maxReplays {
			t.Fatalf("%d are remembered", n)
		}
	}
	// The latest authenticators are stored for twice the skew, and not much longer.
	last := fmt.Append(nil, 3*maxReplays-1)
	if r.storeNew(last, noon.Add(2*time.Minute), time.Minute) {
		t.Error("forgotten too early")
	}
	r.storeNew([]byte("a"), noon.Add(10*time.Minute), time.Minute)
	r.storeNew([]byte("b"), noon.Add(20*time.Minute), time.Minute)
	if !r.storeNew(last, noon.Add(20*time.Minute), time.Minute) {
		t.Error("never forgotten")
	}
}

// The acceptor has no channel bindings, so it accepts any of the initiator (RFC 4121 §4.1.1.2).
func TestChannelBindingsArePassedOver(t *testing.T) {
	kdc, k := freshTicket(t, nil)
	token := requestWith(t, k, func(a *types.Authenticator) { copy(a.Cksum.Checksum[4:], "some binding") })
	if _, _, err := kdc.acceptor().Accept(token, noon); err != nil {
		t.Error(err)
	}
}

func TestDelegationIsPassedOver(t *testing.T) {
	sum := encodeFlags(flagMutual | flagDelegate)
	withCred := append(sum.Checksum, 1, 0, 4, 0, 9, 9, 9, 9)
	for _, c := range []struct {
		name string
		sum  types.Checksum
		ok   bool
	}{
		{"whole", types.Checksum{CksumType: checksumType, Checksum: withCred}, true},
		{"with extensions", types.Checksum{CksumType: checksumType, Checksum: append(withCred[:32:32], 1, 2, 3)}, true},
		{"cut off", types.Checksum{CksumType: checksumType, Checksum: withCred[:31]}, false},
		{"missing", sum, false},
		{"another option", types.Checksum{CksumType: checksumType, Checksum: append(sum.Checksum[:24:24], 2, 0, 0, 0)}, false},
		{"another type", types.Checksum{CksumType: 16, Checksum: withCred}, false},
		{"no checksum", types.Checksum{}, false},
		{"another length of bindings", types.Checksum{CksumType: checksumType, Checksum: make([]byte, 24)}, false},
		{"DCE style", encodeFlags(flagDCEStyle), false},
	} {
		flags, err := parseFlags(c.sum)
		if (err == nil) != c.ok || c.ok && flags != flagMutual|flagDelegate {
			t.Errorf("%s: %#x, %v", c.name, flags, err)
		}
	}
}

func TestAHostByAnotherNameIsAccepted(t *testing.T) {
	kdc := newTestKDC(t, AES128SHA2)
	k := kdc.issue(t, ordinary(key{profile: AES128SHA2.profile()}.freshKey()), "nfs", "alias.example.org")
	k.EncPart.KVNO = 77
	_, token := start(t, k, Config{})
	if _, _, err := kdc.acceptor().Accept(token, noon); err != nil {
		t.Error(err)
	}
}

func TestOnlyKeysOfTheServiceAreUsed(t *testing.T) {
	kdc, k := freshTicket(t, nil)
	writeKeytab(t, kdc.path, "host/"+testHost, "secret", AES256SHA1)
	kdc.reload(t, AES256SHA1)
	k = kdc.issue(t, ordinary(k.session), "host", testHost)
	_, token := start(t, k, Config{})
	m := kdc.acceptor()
	var e *gss.Error
	if _, _, err := m.Accept(token, noon); !errors.As(err, &e) || e.Major != gss.NoCredential {
		t.Error(err)
	}
	if err := m.Check(); err == nil || !strings.Contains(err.Error(), "nfs/HOST") {
		t.Errorf("Check says: %v", err)
	}
}

func TestKeytabIsReadAgainWhenItChanges(t *testing.T) {
	kdc, k := freshTicket(t, nil)
	told := 0
	m := New(Config{Keytab: kdc.path, KeytabFailed: func(error) { told++ }})
	_, token := start(t, k, Config{})
	if _, _, err := m.Accept(token, noon); err != nil {
		t.Fatal(err)
	}
	next := filepath.Join(filepath.Dir(kdc.path), "next")
	writeKeytab(t, next, "nfs/"+testHost, "another", AES256SHA1)
	if err := os.Rename(next, kdc.path); err != nil {
		t.Fatal(err)
	}
	kdc.reload(t, AES256SHA1)
	_, token = start(t, kdc.issue(t, ordinary(k.session)), Config{})
	if _, _, err := m.Accept(token, noon); err != nil {
		t.Fatalf("with a key of the new keytab: %v", err)
	}
	// While the keytab is being written, the previous keys stay in use. After it was removed, there
	// are no keys.
	if err := os.WriteFile(kdc.path, []byte{5, 2, 0}, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := m.Check(); err != nil || told != 1 {
			t.Errorf("while the keytab is being written: %v, told %d times", err, told)
		}
	}
	for mode, exposed := range map[os.FileMode]bool{0o600: false, 0o640: false, 0o644: true} {
		if err := os.Chmod(kdc.path, mode); err != nil {
			t.Fatal(err)
		}
		if err := m.Exposed(); (err != nil) != exposed {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
	if err := os.Remove(kdc.path); err != nil {
		t.Fatal(err)
	}
	if err := m.Check(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after the keytab was removed: %v", err)
	}
}

func TestAnAnswerToAnotherRequestIsRefused(t *testing.T) {
	kdc, k := freshTicket(t, nil)
	i, token := start(t, k, Config{})
	_, reply, err := kdc.acceptor().Accept(token, noon)
	if err != nil {
		t.Fatal(err)
	}
	var e *gss.Error
	later := *i
	later.ctime = i.ctime.Add(time.Second)
	if _, _, err := later.Step(reply, noon); !errors.As(err, &e) || e.Minor != mutualFailed.minor() {
		t.Errorf("of another second: %v", err)
	}
	i.cusec++
	if _, _, err := i.Step(reply, noon); !errors.As(err, &e) || e.Minor != mutualFailed.minor() {
		t.Errorf("of another microsecond: %v", err)
	}
	if _, _, err := i.Step(reply, noon); !errors.As(err, &e) || e.Major != gss.DefectiveToken {
		t.Errorf("after the end: %v", err)
	}
}

// If one bit of an AP-REP is flipped, the initiator refuses it, or makes the same context, because
// the parser ignores some bits outside the encrypted part.
func TestAReplyWithAnyBitFlippedMakesNoOtherContext(t *testing.T) {
	kdc, k := freshTicket(t, nil)
	first, token := start(t, k, Config{})
	acceptor, reply, err := kdc.acceptor().Accept(token, noon)
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	eachBitFlipped(reply, func(bit int) {
		i := *first
		_, c, err := i.Step(reply, noon)
		if err != nil {
			refused++
		} else if acceptor.VerifyMIC(c.MIC(nil)) != nil {
			t.Errorf("bit %d", bit)
		}
	})
	if refused < 8*len(reply)*9/10 {
		t.Errorf("%d of %d are refused", refused, 8*len(reply))
	}
}

// This package decrypts a ticket that the library has encrypted.
func TestATicketOfTheLibraryIsOpened(t *testing.T) {
	for _, e := range allETypes {
		kdc := newTestKDC(t, e)
		kt, err := keytab.Load(kdc.path)
		if err != nil {
			t.Fatal(err)
		}
		name := types.NewPrincipalName(2, "nfs/"+testHost)
		tkt, _, err := messages.NewTicket(types.NewPrincipalName(1, "bob"), testRealm, name, testRealm, types.NewKrbFlags(),
			kt, int32(e), 3, noon, noon, noon.Add(time.Hour), noon.Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		keys, err := kdc.acceptor().serviceKeys()
		if err != nil {
			t.Fatal(err)
		}
		part, _, err := openTicket(&tkt, keys)
		if err != nil || part.CName.NameString[0] != "bob" {
			t.Errorf("%v: %v, %v", e, part, err)
		}
	}
}

func TestPrincipalsHaveDistinctTexts(t *testing.T) {
	for _, c := range []struct {
		components []string
		realm      string
		want       string
	}{
		{[]string{"alice"}, "R", "alice@R"},
		{[]string{"nfs", "host"}, "R", "nfs/host@R"},
		{[]string{"nfs/host"}, "R", `nfs\/host@R`},
		{[]string{"root@R"}, "EVIL", `root\@R@EVIL`},
		{[]string{`a\`}, "R", `a\\@R`},
		{[]string{"a\x00b"}, "R", `a\0b@R`},
	} {
		if got := principalText(c.components, c.realm); got != c.want {
			t.Errorf("%q of %q: %s, want %s", c.components, c.realm, got, c.want)
		}
	}
}

// A principal longer than gss.MaxPrincipal is refused, because the server stores the principal with
// each context and on disk.
func TestLongPrincipalIsRefused(t *testing.T) {
	for length, good := range map[int]bool{gss.MaxPrincipal: true, gss.MaxPrincipal + 1: false, 30 << 10: false} {
		kdc, k := freshTicket(t, func(p *messages.EncTicketPart) {
			p.CRealm, p.CName = "R", types.NewPrincipalName(1, strings.Repeat("a", length-len("@R")))
		})
		_, token := start(t, k, Config{})
		if c, _, err := kdc.acceptor().Accept(token, noon); (err == nil) != good {
			t.Errorf("a principal of %d bytes: %v", length, err)
		} else if good && len(c.Principal()) != length {
			t.Errorf("a principal of %d bytes has %d", length, len(c.Principal()))
		}
	}
}

// A ticket, and a context made with it, are valid until the ticket's end plus the skew, because
// clocks may differ (RFC 4120 §3.2.3).
func TestTicketEndsAfterTheSkew(t *testing.T) {
	const skew = 5 * time.Minute
	kdc, k := freshTicket(t, func(p *messages.EncTicketPart) { p.EndTime = noon.Add(-skew) })
	_, token := start(t, k, Config{})
	c, _, err := kdc.acceptor().Accept(token, noon)
	if err != nil {
		t.Fatal(err)
	}
	if c.Expiry().Before(noon) {
		t.Errorf("the context ends at %v", c.Expiry())
	}
	kdc, k = freshTicket(t, func(p *messages.EncTicketPart) { p.EndTime = noon.Add(-skew - time.Second) })
	_, token = start(t, k, Config{})
	if _, _, err := kdc.acceptor().Accept(token, noon); err == nil {
		t.Error("a ticket is taken that has ended")
	}
}
