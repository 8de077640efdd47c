//go:build interop

package krb5

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss/krb5"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/test/krb5realm"
	"github.com/nfsrdmad/nfsrdmad/transport/tcp"
)

const (
	host     = "server.krb5.test"
	service  = "nfs/" + host
	target   = "nfs@" + host
	machine  = "nfs/client.krb5.test"
	password = "open sesame"
)

// micSizes has the length of a MIC token for each encryption type, in bytes. It tells types apart
// (RFC 4121 §4.2.6.1, RFC 3962 §7, RFC 8009 §8).
var micSizes = map[string]int{
	"aes256-cts-hmac-sha1-96": 28, "aes128-cts-hmac-sha1-96": 28,
	"aes256-cts-hmac-sha384-192": 40, "aes128-cts-hmac-sha256-128": 32,
}

// A site is a realm whose keys all have the same encryption type.
type site struct {
	*krb5realm.Realm
	etype                              string
	conf, keytab, machineKeytab, cache string
}

func newSite(t testing.TB, etype string) *site {
	t.Helper()
	r := krb5realm.New(t, krb5realm.Options{})
	s := &site{r, etype, filepath.Join(r.Dir, "one.conf"), filepath.Join(r.Dir, "keytab"), filepath.Join(r.Dir, "machine.keytab"), filepath.Join(r.Dir, "ccache")}
	for _, err := range []error{
		r.ClientConf(s.conf, etype),
		r.AddUser("alice", password, etype),
		r.AddService(service, etype),
		r.AddService(machine, etype),
		r.Keytab(s.keytab, service),
		r.Keytab(s.machineKeytab, machine),
		r.Login("alice", password, s.cache, s.conf),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// environment returns the environment for the programs of MIT.
func (s *site) environment() []string { return append(s.Environment(), "KRB5_CONFIG="+s.conf) }

// acceptor, user and machine return mechanisms of this module: for the service, for the user, and
// for the client's machine.
func (s *site) acceptor() *krb5.Mechanism { return krb5.New(krb5.Config{Keytab: s.keytab}) }

func (s *site) user(c krb5.Config) *krb5.Mechanism {
	c.Conf, c.Cache = s.conf, "FILE:"+s.cache
	return krb5.New(c)
}

func (s *site) machine(c krb5.Config) *krb5.Mechanism {
	c.Conf, c.Keytab = s.conf, s.machineKeytab
	return krb5.New(c)
}

func forEachType(t *testing.T, f func(t *testing.T, s *site, mutual bool)) {
	for _, etype := range krb5realm.ETypes {
		s := newSite(t, etype)
		for _, mutual := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/mutual=%v", etype, mutual), func(t *testing.T) { f(t, s, mutual) })
		}
	}
}

func TestTheirInitiatorOurAcceptor(t *testing.T) {
	forEachType(t, func(t *testing.T, s *site, mutual bool) {
		p := newPeer(t, s.environment(), "initiate", target, "", mutual)
		first := p.must("step", nil)
		c, reply, err := s.acceptor().Accept(p.bytes(first.Token), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if first.Complete == mutual || mutual == (reply == nil) {
			t.Fatalf("complete %v, and %d bytes of reply", first.Complete, len(reply))
		}
		if mutual {
			if last := p.must("step", request{"token": hex.EncodeToString(reply)}); !last.Complete || last.Token != "" {
				t.Fatalf("after the reply: %+v", last)
			}
		}
		if c.Principal() != "alice@KRB5.TEST" {
			t.Errorf("the peer is %s", c.Principal())
		}
		lifetime := time.Duration(p.must("names", nil).Lifetime) * time.Second
		const skew = 5 * time.Minute // the acceptor accepts a ticket for this time after its end
		if apart := (time.Until(c.Expiry()) - skew - lifetime).Abs(); apart > time.Minute {
			t.Errorf("the context ends in %v, their end in %v", time.Until(c.Expiry()), lifetime)
		}
		protect(t, s, c, p)
	})
}

func TestOurInitiatorTheirAcceptor(t *testing.T) {
	forEachType(t, func(t *testing.T, s *site, mutual bool) {
		for name, m := range map[string]*krb5.Mechanism{
			"alice@KRB5.TEST":                s.user(krb5.Config{OneSided: !mutual}),
			"nfs/client.krb5.test@KRB5.TEST": s.machine(krb5.Config{OneSided: !mutual}),
		} {
			p := newPeer(t, s.environment(), "accept", target, "", mutual)
			c := initiate(t, m, mutual, func(token []byte) []byte {
				a := p.must("step", request{"token": hex.EncodeToString(token)})
				if !a.Complete {
					t.Fatalf("the acceptor wants more: %+v", a)
				}
				return p.bytes(a.Token)
			})
			if got := p.must("names", nil).Initiator; got != name {
				t.Errorf("they take us for %s, we are %s", got, name)
			}
			if c.Principal() != service+"@KRB5.TEST" {
				t.Errorf("the peer is %s", c.Principal())
			}
			protect(t, s, c, p)
		}
	})
}

// initiate creates a context with an acceptor that needs one token from each side.
func initiate(t *testing.T, m gss.Mechanism, mutual bool, accept func(token []byte) []byte) gss.Context {
	t.Helper()
	i, err := m.Initiate(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	token, c, err := i.Step(nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if mutual != (c == nil) {
		t.Fatalf("a context after the first token: %v", c != nil)
	}
	reply := accept(token)
	if !mutual {
		return c
	}
	if token, c, err = i.Step(reply, time.Now()); err != nil || token != nil {
		t.Fatalf("%x, %v", token, err)
	}
	return c
}

func TestOurInitiatorOurAcceptorByTheKDC(t *testing.T) {
	s := newSite(t, krb5realm.ETypes[0])
	acceptor, user := s.acceptor(), s.user(krb5.Config{})
	for range 2 { // the second time, the ticket is in the cache
		var theirs gss.Context
		ours := initiate(t, user, true, func(token []byte) []byte {
			c, reply, err := acceptor.Accept(token, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			theirs = c
			return reply
		})
		if err := theirs.VerifyMIC(ours.MIC(nil, []byte("message")), []byte("message")); err != nil {
			t.Error(err)
		}
	}
}

// protect checks that each side accepts the tokens of the other. The peer also checks their
// order.
func protect(t *testing.T, s *site, c gss.Context, p *peer) {
	t.Helper()
	if c.MICSize() != micSizes[s.etype] {
		t.Errorf("MIC tokens of %d bytes, want %d", c.MICSize(), micSizes[s.etype])
	}
	for _, n := range []int{0, 1, 15, 16, 17, 100, 4096} {
		message := make([]byte, n)
		for i := range message {
			message[i] = byte(i*5 + n)
		}
		inHex := hex.EncodeToString(message)
		half := n / 2
		p.must("verify", request{"message": inHex, "token": hex.EncodeToString(c.MIC(nil, message[:half], message[half:]))})
		if err := c.VerifyMIC(p.bytes(p.must("mic", request{"message": inHex}).Token), message); err != nil {
			t.Errorf("their MIC over %d bytes: %v", n, err)
		}
		a := p.must("unwrap", request{"token": hex.EncodeToString(wrap(c, message))})
		if a.Message != inHex || !a.Sealed {
			t.Errorf("our Wrap of %d bytes: %+v", n, a)
		}
		for _, how := range []string{"wrap", "wrap_in_front"} {
			token := p.bytes(p.must(how, request{"message": inHex, "sealed": true}).Token)
			from, to, err := c.Unwrap(token)
			if err != nil || string(token[from:to]) != string(message) {
				t.Errorf("their %s of %d bytes: %v", how, n, err)
			}
		}
	}
	rotate(t, c, p)
}

// rotate checks that each side accepts tokens that are rotated by any number of bytes.
func rotate(t *testing.T, c gss.Context, p *peer) {
	t.Helper()
	message := []byte("a message that is turned round and round")
	inHex := hex.EncodeToString(message)
	for rrc := range 64 {
		a := p.must("unwrap", request{"token": hex.EncodeToString(rotated(wrap(c, message), rrc))})
		if a.Message != inHex {
			t.Errorf("our token, rotated by %d: %+v", rrc, a)
		}
		token := rotated(p.bytes(p.must("wrap", request{"message": inHex, "sealed": true}).Token), rrc)
		from, to, err := c.Unwrap(token)
		if err != nil || string(token[from:to]) != string(message) {
			t.Errorf("their token, rotated by %d: %v", rrc, err)
		}
	}
}

// wrap returns a Wrap token in one piece.
func wrap(c gss.Context, message []byte) []byte {
	before, behind := c.WrapSize()
	token := make([]byte, before+len(message)+behind)
	body := token[before : before+len(message)]
	copy(body, message)
	c.Wrap(token[:before], body[:len(body)/3], body[len(body)/3:], token[before+len(message):])
	return token
}

// rotated returns a token whose bytes after the header are rotated right by n bytes (RFC 4121
// §4.2.5).
func rotated(token []byte, n int) []byte {
	const header = 16
	if n > math.MaxUint16 {
		panic("RRC has 16 bits")
	}
	out := append([]byte(nil), token...)
	for i, b := range token[header:] {
		out[header+(i+n)%(len(token)-header)] = b
	}
	binary.BigEndian.PutUint16(out[6:], uint16(n))
	return out
}

// The initiator's channel bindings do not matter, because our acceptor has none (RFC 4121 §4.1.1.2).
func TestChannelBindingsOfTheInitiatorArePassedOver(t *testing.T) {
	s := newSite(t, krb5realm.ETypes[0])
	p := newPeer(t, s.environment(), "initiate", target, "tls-exporter:abc", true)
	if _, _, err := s.acceptor().Accept(p.bytes(p.must("step", nil).Token), time.Now()); err != nil {
		t.Error(err)
	}
}

// Each side understands the reason for which the other refuses a context.
func TestRefusalsAreUnderstood(t *testing.T) {
	s := newSite(t, krb5realm.ETypes[1])
	p := newPeer(t, s.environment(), "initiate", target, "", true)
	token := p.bytes(p.must("step", nil).Token)
	_, reply, err := s.acceptor().Accept(token, time.Now().Add(time.Hour))
	if err == nil || reply == nil {
		t.Fatalf("%x, %v", reply, err)
	}
	if a := p.ask("step", request{"token": hex.EncodeToString(reply)}); !strings.Contains(a.Error, "Clock skew too great") {
		t.Errorf("they say: %+v", a)
	}
	i, err := s.user(krb5.Config{}).Initiate(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := i.Step(nil, time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := i.Step(reply, time.Now()); err == nil || !strings.Contains(err.Error(), "skew") {
		t.Errorf("we say: %v", err)
	}
	if _, err := s.user(krb5.Config{}).Initiate(t.Context(), "nfs@nowhere.krb5.test"); err == nil || !strings.Contains(err.Error(), "nfs/nowhere.krb5.test") {
		t.Errorf("a service that is none: %v", err)
	}
}

// A server refuses a context with a major and a minor status (RFC 2203 §5.2.3.1). The minor
// status is the same as that of MIT's library for the same reason. If a ticket was issued with an
// old key, it is the status that makes rpc.gssd get another ticket.
func TestMinorStatusIsTheirs(t *testing.T) {
	s := newSite(t, krb5realm.ETypes[0])
	const badIntegrity = 0x96c73a1f // KRB5KRB_AP_ERR_BAD_INTEGRITY
	other := filepath.Join(s.Dir, "other.keytab")
	for _, err := range []error{s.Keytab(other, service), s.ChangeKeys(service, krb5realm.ETypes[0])} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name   string
		config krb5.Config
		words  string
		minor  uint32
	}{
		{"clocks", krb5.Config{Keytab: s.keytab, Skew: 1}, "Clock skew too great", 0},
		{"a key that is not the KDC's", krb5.Config{Keytab: other}, "Decrypt integrity check failed", badIntegrity},
		{"no keytab", krb5.Config{Keytab: "/nonexistent"}, "Service key not available", 0},
	} {
		if c.config.Keytab == s.keytab {
			if err := s.Keytab(s.keytab, service); err != nil {
				t.Fatal(err)
			}
		}
		m := krb5.New(c.config)
		v := newRPCSiteOf(t, s, m, nil)
		conn, err := tcp.Dial(t.Context(), v.addr, tcp.DialConfig{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = gss.NewClient(t.Context(), conn, gss.ClientConfig{
			Mechanism: s.user(krb5.Config{}), Target: target, Service: rpc.GSSNone, Program: rpctest.Number, Version: rpctest.LowVersion})
		conn.Close()
		var e *gss.Error
		if !errors.As(err, &e) || c.minor != 0 && e.Minor != c.minor {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		p := newPeer(t, s.environment(), "initiate", target, "", true)
		_, reply, _ := m.Accept(p.bytes(p.must("step", nil).Token), time.Now())
		if a := p.ask("step", request{"token": hex.EncodeToString(reply)}); !strings.Contains(a.Error, c.words) || a.Minor != e.Minor {
			t.Errorf("%s: our minor is %#x, they say %+v", c.name, e.Minor, a)
		}
	}
	// MIT's library accepts the error token with which the acceptor answers a token of an unknown
	// kind.
	p := newPeer(t, s.environment(), "initiate", target, "", true)
	p.must("step", nil)
	unknown := []byte{0x60, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02, 0x01, 0x07}
	_, reply, _ := s.acceptor().Accept(unknown, time.Now())
	if a := p.ask("step", request{"token": hex.EncodeToString(reply)}); !strings.Contains(a.Error, "Invalid message type") {
		t.Errorf("they say: %+v", a)
	}
}

// If the KDC changes the keys of a service and its keytab gets the new ones, the acceptor refuses
// the initiator's ticket once, and the initiator gets a new ticket.
func TestKeysAreChangedWhileTheAcceptorRuns(t *testing.T) {
	s := newSite(t, krb5realm.ETypes[0])
	acceptor := s.acceptor()
	initiator := s.user(krb5.Config{})
	try := func() error {
		i, err := initiator.Initiate(t.Context(), target)
		if err != nil {
			t.Fatal(err)
		}
		token, _, err := i.Step(nil, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		_, reply, refused := acceptor.Accept(token, time.Now())
		if _, _, err := i.Step(reply, time.Now()); (err == nil) != (refused == nil) {
			t.Fatalf("the acceptor says %v, the initiator %v", refused, err)
		}
		return refused
	}
	if err := try(); err != nil {
		t.Fatal(err)
	}
	if err := s.ChangeKeys(service, krb5realm.ETypes[0]); err != nil {
		t.Fatal(err)
	}
	if err := try(); err != nil {
		t.Errorf("with a ticket of before: %v", err)
	}
	if err := os.Remove(s.keytab); err != nil {
		t.Fatal(err)
	}
	if err := s.Keytab(s.keytab, service); err != nil {
		t.Fatal(err)
	}
	if err := try(); err == nil {
		t.Error("a ticket with a key that is not in the keytab is taken")
	}
	if err := try(); err != nil {
		t.Errorf("with a new ticket: %v", err)
	}
}

// A user of one realm can use a service of another realm that trusts the first. The acceptor
// names the user with the user's realm.
func TestUsersOfOtherRealmsAreNamedByTheirs(t *testing.T) {
	s := newSite(t, krb5realm.ETypes[0])
	away := krb5realm.New(t, krb5realm.Options{Name: "AWAY.TEST"})
	cache := filepath.Join(away.Dir, "ccache")
	for _, err := range []error{
		s.Trust(away),
		away.AddUser("bob", password),
		away.Login("bob", password, cache, ""),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	i, err := krb5.New(krb5.Config{Conf: away.Conf, Cache: cache}).Initiate(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	token, _, err := i.Step(nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	c, _, err := s.acceptor().Accept(token, time.Now())
	if err != nil || c.Principal() != "bob@AWAY.TEST" {
		t.Errorf("%v, %v", c, err)
	}
	p := newPeer(t, append(away.Environment(), "KRB5CCNAME=FILE:"+cache), "initiate", target, "", true)
	c, _, err = s.acceptor().Accept(p.bytes(p.must("step", nil).Token), time.Now())
	if err != nil || c.Principal() != "bob@AWAY.TEST" {
		t.Errorf("by their library: %v, %v", c, err)
	}
}
