package rdmatest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

var setupRules = []rule{
	{"PrivateDataOfEverySize", setupPrivateData},
	{"TooMuchPrivateDataIsRefused", setupTooMuchPrivateData},
	{"RejectCarriesPrivateData", setupReject},
	{"AddressesAreThePeers", setupAddresses},
	{"ReadDepthIsAtMostOutboundReads", setupReadDepth},
	{"DialWithoutAListenerFails", setupNoListener},
	{"DialGivesUpWithItsContext", setupDialCancelled},
	{"AcceptAfterClose", setupAcceptAfterClose},
	{"ConnectionsOutliveTheirListener", setupListenerClosed},
	{"ManyConnectionsAtOnce", setupMany},
}

// dataSizes returns some lengths of private data, in bytes. The longest is the limit most.
func dataSizes(most int) []int {
	var n []int
	for i := 0; i <= most; i += 7 {
		n = append(n, i)
	}
	return append(n, 1, 4, 8, most-1, most)
}

// data asserts that got equals want, except that zeros may follow want.
func (s *suite) data(what string, got, want []byte) {
	s.Helper()
	if len(got) > len(want) && len(bytes.Trim(got[len(want):], "\x00")) == 0 {
		got = got[:len(want)]
	}
	s.same(what, got, want)
}

func setupPrivateData(s *suite) {
	for _, n := range dataSizes(rdmacm.MaxAcceptData) {
		s.Run(fmt.Sprint(n), func(t *testing.T) {
			s := &suite{T: t, Options: s.Options, provider: s.provider}
			l := s.listen()
			ask, answer := pattern(1, min(n, rdmacm.MaxRequestData)), pattern(2, rdmacm.MaxAcceptData-n)
			dialer, acceptor := common(), common()
			dialer.PrivateData, acceptor.PrivateData = ask, answer
			dialed := s.dial(l.Addr(), dialer)
			r, err := l.Accept()
			s.noError(err)
			s.data("the request's private data", r.PrivateData(), ask)
			b := newPeer(s.T, &acceptor)
			c, err := r.Accept(acceptor.ConnParam)
			s.noError(err)
			b.begin(c)
			a := dialed()
			s.data("the dialer's private data", c.PeerPrivateData(), ask)
			s.data("the acceptor's private data", a.Conn().PeerPrivateData(), answer)
			s.lives(a, b)
		})
	}
}

// dial starts to connect. The returned function waits for the connection, and returns its Peer.
func (s *suite) dial(addr netip.AddrPort, param PeerParam) func() *Peer {
	p := newPeer(s.T, &param)
	var c rdmacm.Conn
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err = s.provider.Dial(s.Context(), addr, param.ConnParam)
	}()
	return func() *Peer {
		s.Helper()
		within(s.T, "Dial returns", done)
		if err != nil {
			s.Fatalf("dial %v: %v", addr, err)
		}
		p.begin(c)
		return p
	}
}

func setupTooMuchPrivateData(s *suite) {
	l := s.listen()
	param := common()
	param.PrivateData = make([]byte, 600)
	param.Handler = peerHandler{newPeer(s.T, &PeerParam{})}
	if c, err := s.provider.Dial(s.Context(), l.Addr(), param.ConnParam); err == nil {
		c.Abort(nil)
		<-c.Done()
		s.Fatal("600 bytes of private data are accepted")
	}
}

func setupReject(s *suite) {
	known, _ := s.pair(common(), common())
	for _, n := range dataSizes(rdmacm.MaxRejectData) {
		s.Run(fmt.Sprint(n), func(t *testing.T) {
			s := &suite{T: t, Options: s.Options, provider: s.provider}
			l := s.listen()
			failed := make(chan error, 1)
			param := common()
			p := newPeer(s.T, &param)
			go func() {
				c, err := s.provider.Dial(s.Context(), l.Addr(), param.ConnParam)
				if err == nil {
					p.begin(c)
				}
				failed <- err
			}()
			r, err := l.Accept()
			s.noError(err)
			why := pattern(3, n)
			s.noError(r.Reject(why))
			err = within(s.T, "Dial returns", failed)
			if rejected, ok := errors.AsType[*rdmacm.RejectedError](err); ok {
				s.data("private data of the refusal", rejected.PrivateData, why)
			} else if err == nil || !s.lacks(known, rdmacm.RefusalLosesItsData) {
				s.Fatalf("Dial returns %v", err)
			}
			if p.closed != 0 {
				s.Fatal("Closed is called for a connection that never was")
			}
		})
	}
}

func setupAddresses(s *suite) {
	l := s.listen()
	if l.Addr().Port() == 0 || l.Addr().Addr() != s.Options.Listen.Addr() {
		s.Fatalf("listening at %v instead of %v", l.Addr(), s.Options.Listen)
	}
	dialed := s.dial(l.Addr(), common())
	r, err := l.Accept()
	s.noError(err)
	local, peer := r.Local(), r.Peer()
	param := common()
	b := newPeer(s.T, &param)
	c, err := r.Accept(param.ConnParam)
	s.noError(err)
	b.begin(c)
	a := dialed().Conn()
	if a.Peer() != l.Addr() || local != l.Addr() || c.Local() != l.Addr() {
		s.Errorf("listener at %v; dialer sees %v, request %v, acceptor %v", l.Addr(), a.Peer(), local, c.Local())
	}
	if peer != a.Local() || c.Peer() != a.Local() {
		s.Errorf("dialer at %v; request sees %v, acceptor %v", a.Local(), peer, c.Peer())
	}
}

func setupReadDepth(s *suite) {
	for _, c := range []struct{ out, in int }{{1, 1}, {4, 4}, {16, 4}, {4, 16}, {0, 4}} {
		s.Run(fmt.Sprintf("wants%dOf%d", c.out, c.in), func(t *testing.T) {
			s := &suite{T: t, Options: s.Options, provider: s.provider}
			one, two := common(), common()
			one.OutboundReads, one.InboundReads = c.out, c.in
			two.OutboundReads, two.InboundReads = c.out, c.in
			a, b := s.pair(one, two)
			for _, p := range []*Peer{a, b} {
				got := p.Conn().ReadDepth()
				if got > c.out || c.out > 0 && got < 1 {
					s.Errorf("%d Reads wanted, ReadDepth is %d", c.out, got)
				}
			}
		})
	}
}

func setupNoListener(s *suite) {
	param := common()
	newPeer(s.T, &param)
	if c, err := s.provider.Dial(s.Context(), s.Nowhere, param.ConnParam); err == nil {
		c.Abort(nil)
		<-c.Done()
		s.Fatalf("a peer answers at %v, where there is none", s.Nowhere)
	}
}

func setupDialCancelled(s *suite) {
	l := s.listen()
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	failed := make(chan error, 1)
	param := common()
	newPeer(s.T, &param)
	go func() {
		c, err := s.provider.Dial(ctx, l.Addr(), param.ConnParam)
		if err == nil {
			c.Abort(nil)
		}
		failed <- err
	}()
	r, err := l.Accept()
	s.noError(err)
	cancel()
	if err := within(s.T, "Dial returns", failed); !errors.Is(err, context.Canceled) {
		s.Fatalf("Dial returns %v", err)
	}
	// Either Accept fails now, or the acceptor's Closed is called later. The provider chooses.
	answer := common()
	b := newPeer(s.T, &answer)
	if c, err := r.Accept(answer.ConnParam); err == nil {
		b.begin(c)
		b.End()
	}
}

func setupAcceptAfterClose(s *suite) {
	l := s.listen()
	failed := make(chan error, 1)
	go func() {
		_, err := l.Accept()
		failed <- err
	}()
	s.noError(l.Close())
	for range 2 {
		if err := within(s.T, "Accept returns", failed); !errors.Is(err, net.ErrClosed) {
			s.Fatalf("Accept returns %v", err)
		}
		_, err := l.Accept()
		failed <- err
	}
}

func setupListenerClosed(s *suite) {
	l := s.listen()
	dialed := s.dial(l.Addr(), common())
	b := AcceptPeer(s.T, l, common())
	a := dialed()
	s.noError(l.Close())
	s.lives(a, b)
}

func setupMany(s *suite) {
	const n = 40
	l := s.listen()
	var dialing []func() *Peer
	for i := range n {
		param := common()
		param.PrivateData = []byte{byte(i)}
		dialing = append(dialing, s.dial(l.Addr(), param))
	}
	acceptors := make(map[byte]*Peer)
	for range n {
		b := AcceptPeer(s.T, l, common())
		acceptors[b.Conn().PeerPrivateData()[0]] = b
	}
	for i, wait := range dialing {
		s.lives(wait(), acceptors[byte(i)])
	}
}
