package krb5

import (
	stdcontext "context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/iana/nametype"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
	"golang.org/x/sync/singleflight"
)

// A ticket is a Kerberos ticket for one server, with its session key.
type ticket struct {
	messages.Ticket
	session key
	end     time.Time
	client  types.PrincipalName
	realm   string // the client's realm
	server  string // the server's principal as the caller wrote it
}

// maxTickets is the largest number of tickets that tickets stores.
const maxTickets = 64

// tickets stores the initiator's tickets by the server's principal. It has the tickets that servers
// have accepted. Without mutual authentication the initiator does not learn whether the server
// accepted a ticket; then tickets has all that were sent.
type tickets struct {
	mu   sync.Mutex
	kept map[string]*ticket
}

// take removes and returns a ticket that has not expired. If the server accepts the ticket, the
// caller stores it again with put. So a ticket that the server refuses, for example because its
// keys have changed, is not used twice.
func (t *tickets) take(server string, now time.Time) *ticket {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.kept[server]
	delete(t.kept, server)
	if k != nil && now.Before(k.end) {
		return k
	}
	return nil
}

// put stores a ticket. If there are already maxTickets, it deletes any one of the others.
func (t *tickets) put(k *ticket) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kept == nil {
		t.kept = make(map[string]*ticket)
	}
	for other := range t.kept {
		if len(t.kept) < maxTickets {
			break
		}
		delete(t.kept, other)
	}
	t.kept[k.server] = k
}

// ticketFor returns a ticket for a server. If none is stored, it gets one with askFor, and waits at
// most until ctx ends.
func (m *Mechanism) ticketFor(ctx stdcontext.Context, server []string, realm string, now time.Time) (*ticket, error) {
	name := principalText(server, realm)
	if k := m.tickets.take(name, now); k != nil {
		return k, nil
	}
	return m.asks.ask(ctx, name, func() (*ticket, error) { return m.askFor(name, server, realm, now) })
}

// askFor gets a ticket from the credential cache or from the KDC. It waits for the KDC until the
// library's time-outs.
func (m *Mechanism) askFor(name string, server []string, realm string, now time.Time) (*ticket, error) {
	var k *ticket
	err := guarded(func() (err error) {
		if m.config.Cache != "" {
			k, err = m.ticketByCache(server, realm, now)
		} else {
			k, err = m.ticketByKeytab(server, realm)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("getting a ticket for %s: %w", strings.TrimSuffix(name, "@"), m.explained(err))
	}
	k.server = name
	return k, nil
}

// ticketByKeytab gets a ticket-granting ticket with a key of the keytab, and with it a ticket for
// the server. It does not store the ticket-granting ticket, because the server's ticket, which is
// stored, is valid for the same time.
func (m *Mechanism) ticketByKeytab(server []string, realm string) (*ticket, error) {
	conf, err := loadConf(m.config.Conf)
	if err != nil {
		return nil, err
	}
	file, err := m.keytab.load()
	if err != nil {
		return nil, err
	}
	who, err := m.initiatingKey(file.keys, conf.LibDefaults.DefaultRealm)
	if err != nil {
		return nil, err
	}
	conf.LibDefaults.DefaultTktEnctypeIDs = slices.DeleteFunc(conf.LibDefaults.DefaultTktEnctypeIDs, func(id int32) bool {
		_, _, err := file.all.GetEncryptionKey(types.PrincipalName{NameString: who.components}, who.realm, 0, id)
		return err != nil
	})
	findKDCs(conf, who.realm)
	c := client.NewWithKeytab(strings.Join(who.components, "/"), who.realm, file.all, conf, client.DisablePAFXFAST(true))
	defer c.Destroy()
	req, err := messages.NewASReqForTGT(who.realm, conf, c.Credentials.CName())
	if err != nil {
		return nil, err
	}
	rep, err := c.ASExchange(who.realm, req, 0)
	if err != nil {
		return nil, err
	}
	return grant(c, conf, rep.Ticket, rep.DecryptedEncPart.Key, server, realm)
}

// initiatingKey returns the first of the keytab's keys that is of the initiator's principal.
func (m *Mechanism) initiatingKey(keys []serviceKey, defaultRealm string) (serviceKey, error) {
	if m.config.Principal == "" {
		if keys = ofService(keys, m.config.Service); len(keys) == 0 {
			return serviceKey{}, fmt.Errorf("the keytab %s has no key of AES for a principal %s/HOST", m.config.Keytab, m.config.Service)
		}
		return keys[0], nil
	}
	components, realm, err := parsePrincipal(m.config.Principal)
	if err != nil {
		return serviceKey{}, err
	}
	if realm == "" {
		realm = defaultRealm
	}
	for _, k := range keys {
		if k.realm == realm && slices.Equal(k.components, components) {
			return k, nil
		}
	}
	return serviceKey{}, fmt.Errorf("the keytab %s has no key of AES for %s", m.config.Keytab, principalText(components, realm))
}

// ticketByCache returns the server's ticket from the credential cache. If the cache has none, it
// gets one from the KDC with the cache's ticket-granting ticket.
func (m *Mechanism) ticketByCache(server []string, realm string, now time.Time) (*ticket, error) {
	path, err := cacheFile(m.config.Cache)
	if err != nil {
		return nil, err
	}
	cache, err := credentials.LoadCCache(path)
	if err != nil {
		return nil, fmt.Errorf("reading the credential cache %s: %w: use kinit", path, pathless(err))
	}
	who := cache.DefaultPrincipal
	if who.Realm == "" || len(who.PrincipalName.NameString) == 0 {
		return nil, fmt.Errorf("the credential cache %s is malformed: it names no principal", path)
	}
	if c := cached(cache, server, realm, now); c != nil {
		var t messages.Ticket
		if err := t.Unmarshal(c.Ticket); err != nil {
			return nil, err
		}
		return newTicket(t, c.Key, c.EndTime, who.PrincipalName, who.Realm)
	}
	granting := cached(cache, []string{"krbtgt", who.Realm}, who.Realm, now)
	if granting == nil {
		return nil, fmt.Errorf("the credential cache %s has no ticket of %s that has not ended: use kinit", path, principalText(who.PrincipalName.NameString, who.Realm))
	}
	var t messages.Ticket
	if err := t.Unmarshal(granting.Ticket); err != nil {
		return nil, err
	}
	conf, err := loadConf(m.config.Conf)
	if err != nil {
		return nil, err
	}
	findKDCs(conf, who.Realm)
	c := client.NewWithPassword(who.PrincipalName.PrincipalNameString(), who.Realm, "", conf, client.DisablePAFXFAST(true))
	defer c.Destroy()
	return grant(c, conf, t, granting.Key, server, realm)
}

// cached returns a ticket for a server from the cache, or nil if the cache has none, or only
// expired ones. If realm is "", the ticket may be of any realm.
func cached(cache *credentials.CCache, server []string, realm string, now time.Time) *credentials.Credential {
	for _, c := range cache.GetEntries() {
		if slices.Equal(c.Server.PrincipalName.NameString, server) && (realm == "" || c.Server.Realm == realm) && now.Before(c.EndTime) {
			return c
		}
	}
	return nil
}

// grant exchanges a ticket-granting ticket for a service ticket. If the server's realm is known and
// differs from the client's, it gets the service ticket from the KDC of the server's realm.
func grant(c *client.Client, conf *config.Config, granting messages.Ticket, session types.EncryptionKey, server []string, realm string) (*ticket, error) {
	home := c.Credentials.Domain()
	if realm == "" {
		realm = conf.ResolveRealm(server[len(server)-1])
	}
	if realm != "" && realm != home {
		name := types.PrincipalName{NameType: nametype.KRB_NT_SRV_INST, NameString: []string{"krbtgt", realm}}
		_, rep, err := c.TGSREQGenerateAndExchange(name, home, granting, session, false)
		if err != nil {
			return nil, err
		}
		granting, session, home = rep.Ticket, rep.DecryptedEncPart.Key, realm
		findKDCs(conf, realm)
	}
	name := types.PrincipalName{NameType: nametype.KRB_NT_SRV_HST, NameString: server}
	_, rep, err := c.TGSREQGenerateAndExchange(name, home, granting, session, false)
	if err != nil {
		return nil, err
	}
	part := rep.DecryptedEncPart
	return newTicket(rep.Ticket, part.Key, part.EndTime, c.Credentials.CName(), c.Credentials.Domain())
}

func newTicket(t messages.Ticket, session types.EncryptionKey, end time.Time, client types.PrincipalName, realm string) (*ticket, error) {
	k, err := newKey(EType(session.KeyType), session.KeyValue)
	if err != nil {
		return nil, fmt.Errorf("the session key of the ticket: %w", err)
	}
	return &ticket{Ticket: t, session: k, end: end, client: client, realm: realm}, nil
}

// maxAsks is the largest number of requests to KDCs that run at once.
const maxAsks = 8

// asks has the requests to KDCs that run now. A request uses a goroutine and a socket. The library
// cannot interrupt it: the library waits for its own time-outs, five seconds for each KDC and
// protocol. So a request continues even if its callers no longer wait for it. Therefore at most
// maxAsks requests run, and at most one for each server.
type asks struct {
	byServer singleflight.Group
	running  atomic.Int32
}

// ask calls f on another goroutine, and waits for its result until ctx ends. If a request for the
// same server already runs, ask waits for the result of that one instead.
func (a *asks) ask(ctx stdcontext.Context, server string, f func() (*ticket, error)) (*ticket, error) {
	answer := a.byServer.DoChan(server, func() (any, error) {
		defer a.running.Add(-1)
		if a.running.Add(1) > maxAsks {
			return nil, fmt.Errorf("asking the KDC for a ticket for %s: %d other tickets are being asked for, and the KDC does not answer", server, maxAsks)
		}
		return f()
	})
	select {
	case got := <-answer:
		k, _ := got.Val.(*ticket)
		return k, got.Err
	case <-ctx.Done():
		return nil, fmt.Errorf("asking the KDC for a ticket for %s: it does not answer: %w", server, stdcontext.Cause(ctx))
	}
}
