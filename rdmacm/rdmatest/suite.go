package rdmatest

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"testing"

	"go.uber.org/goleak"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

// Options adapt the suite to a provider.
type Options struct {
	// Listen is the address to listen at; default 127.0.0.1 with a free port.
	Listen netip.AddrPort
	// Nowhere is an address without a listener, at which Dial fails; default port 1 at the
	// address of Listen.
	Nowhere netip.AddrPort
	// Counted returns a provider that gets the seats of its accepted connections from seats.
	Counted func(t *testing.T, seats rdmacm.Seats) rdmacm.Provider
	// Quick leaves out the largest transfers.
	Quick bool

	declared *declared
}

// suite is one sub-test with its options and its provider.
type suite struct {
	*testing.T
	Options
	provider rdmacm.Provider
}

// Run runs the conformance suite. It has one sub-test for each rule of package rdmacm for
// providers, and calls provider for each sub-test. Each shortcoming that the device's
// connections declare (rdmacm.Carrier) names a rule that the device need not keep. But Run fails if
// a device declares a shortcoming that no sub-test observes, unless sub-tests observe it only
// sometimes (ReadsSeeLaterBytes).
func Run(t *testing.T, provider func(t *testing.T) rdmacm.Provider, o Options) {
	if !o.Listen.IsValid() {
		o.Listen = netip.MustParseAddrPort("127.0.0.1:0")
	}
	if !o.Nowhere.IsValid() {
		o.Nowhere = netip.AddrPortFrom(o.Listen.Addr(), 1)
	}
	o.declared = &declared{met: make(map[rdmacm.Shortcoming]bool)}
	ran, all := 0, 0
	for _, group := range []struct {
		name  string
		tests []rule
	}{
		{"Setup", setupRules},
		{"Seat", seatRules},
		{"Send", sendRules},
		{"Tagged", taggedRules},
		{"Exposure", exposureRules},
		{"End", endRules},
		{"Load", loadRules},
	} {
		all += len(group.tests)
		t.Run(group.name, func(t *testing.T) {
			for _, r := range group.tests {
				t.Run(r.name, func(t *testing.T) {
					ran++
					others := goleak.IgnoreCurrent()
					// Cleanups run in reverse order, so the peers have ended when this cleanup
					// looks for goroutines.
					t.Cleanup(func() { goleak.VerifyNone(t, others) })
					r.test(&suite{T: t, Options: o, provider: provider(t)})
				})
			}
		})
	}
	if ran == all {
		o.declared.shown(t)
	}
}

// rule is one named sub-test.
type rule struct {
	name string
	test func(s *suite)
}

// listen opens a listener, and closes it at the end of the test.
func (s *suite) listen() rdmacm.Listener {
	s.Helper()
	l, err := s.provider.Listen(s.Options.Listen)
	if err != nil {
		s.Fatalf("listen at %v: %v", s.Options.Listen, err)
	}
	s.Cleanup(func() { l.Close() })
	return l
}

// common returns the parameters that most tests use for both ends.
func common() PeerParam {
	return PeerParam{ConnParam: rdmacm.ConnParam{
		Receives: 16, MaxReceives: 2048, ReceiveSize: 4096, InboundReads: 8, OutboundReads: 8,
	}}
}

// pair connects two peers.
func (s *suite) pair(dialer, acceptor PeerParam) (a, b *Peer) {
	s.Helper()
	l := s.listen()
	type dialed struct {
		p *Peer
		c rdmacm.Conn
		e error
	}
	got := make(chan dialed, 1)
	go func() {
		p := newPeer(s.T, &dialer)
		c, err := s.provider.Dial(s.Context(), l.Addr(), dialer.ConnParam)
		got <- dialed{p, c, err}
	}()
	b = AcceptPeer(s.T, l, acceptor)
	d := within(s.T, "Dial returns", got)
	if d.e != nil {
		s.Fatalf("dial %v: %v", l.Addr(), d.e)
	}
	d.p.begin(d.c)
	s.declared.add(d.c)
	return d.p, b
}

// both runs a test twice: first a is the end that dialed, then a is the end that accepted.
func both(test func(s *suite, a, b *Peer)) func(s *suite) {
	return with(common(), test)
}

func with(param PeerParam, test func(s *suite, a, b *Peer)) func(s *suite) {
	return func(s *suite) {
		for i, name := range []string{"dialer", "acceptor"} {
			s.Run(name, func(t *testing.T) {
				s := &suite{T: t, Options: s.Options, provider: s.provider}
				a, b := s.pair(param, param)
				if i == 1 {
					a, b = b, a
				}
				test(s, a, b)
			})
		}
	}
}

// pattern returns n bytes that look random and depend on seed.
func pattern(seed, n int) []byte {
	b := make([]byte, n)
	src := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16)})
	src.Read(b)
	return b
}

// sizes returns the sizes of transfers up to limit: some around the sizes of words, pages and
// segments, and some large ones.
func (s *suite) sizes(limit int) []int {
	all := []int{0, 1, 2, 3, 4, 5, 7, 1023, 1024, 1447, 1448, 1461, 4095, 4096, 4097,
		16383, 32767, 32768, 65535, 65536, 65537, 262144, 1 << 20, 1<<20 + 4099, 8 << 20}
	var fit []int
	for _, n := range all {
		if n <= limit && !(s.Quick && n > 1<<20) {
			fit = append(fit, n)
		}
	}
	return fit
}

func (s *suite) same(what string, got, want []byte) {
	s.Helper()
	if len(got) != len(want) {
		s.Fatalf("%s: %d bytes, want %d", what, len(got), len(want))
	}
	if !bytes.Equal(got, want) {
		i := 0
		for got[i] == want[i] {
			i++
		}
		s.Fatalf("%s: differs from byte %d of %d on: %#x, want %#x", what, i, len(got), got[i], want[i])
	}
}

func (s *suite) ok(o Outcome) {
	s.Helper()
	if o.Err != nil || o.Failed != -1 {
		s.Fatalf("a chain comes back with %v, index %d", o.Err, o.Failed)
	}
}

func (s *suite) noError(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// killed asserts that the connection of each peer ended because of a fault.
func (s *suite) killed(peers ...*Peer) {
	s.Helper()
	for _, p := range peers {
		if err := p.End(); err == nil {
			s.Fatal("the connection ends in order, as if nothing were wrong")
		}
	}
}

// killedUnless asserts that the connection of p ended because of a fault. If the device
// declares the shortcoming, p may report an orderly end instead.
func (s *suite) killedUnless(declared rdmacm.Shortcoming, p *Peer) {
	s.Helper()
	if err := p.End(); err == nil && !s.lacks(p, declared) {
		s.Fatal("the connection ends in order, as if nothing were wrong")
	}
}

// promise provides n more receives at p, and sends a message from p to its peer, the parameter
// to. Once the peer has that message, it may rely on the receives (rdmacm.Conn.Provide).
func (s *suite) promise(p, to *Peer, n int) {
	s.Helper()
	p.Promise(n)
	to.Promise(1)
	s.noError(p.Send([]byte("more")))
	to.Receive()
}

// lives asserts that the connection still carries messages both ways.
func (s *suite) lives(a, b *Peer) {
	s.Helper()
	a.Promise(1)
	b.Promise(1)
	s.noError(a.Send([]byte("there")))
	s.same("message", b.Receive().Bytes, []byte("there"))
	s.noError(b.Send([]byte("and back")))
	s.same("message", a.Receive().Bytes, []byte("and back"))
}
