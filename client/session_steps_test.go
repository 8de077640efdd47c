package client_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/test/testserver"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// The server has restarted. Whatever disturbs a step of the recovery, the session recovers, the
// application is told, and the server has executed RECLAIM_COMPLETE for the client ID in use (RFC 8881
// §18.51.3).
func TestRecoveryGoesOnWhateverDisturbsIt(t *testing.T) {
	disturbances := map[string]reaction{
		"lost": {end: true}, "executed and lost": {end: true, executed: true}, "restart": {restart: true},
	}
	for _, status := range []wire.NFSStat4{
		wire.NFS4ErrDelay, wire.NFS4ErrServerFault, wire.NFS4ErrIO, wire.NFS4ErrSeqMisordered, wire.NFS4ErrClIDInUse,
		wire.NFS4ErrMinorVersMismatch, wire.NFS4ErrStaleClientID, wire.NFS4ErrBadSession,
	} {
		disturbances[status.String()] = reaction{status: status}
	}
	for _, step := range []struct {
		op      wire.OpNum
		numbers []int
	}{
		{wire.OpCreateSession, []int{1}}, {wire.OpExchangeID, []int{1}}, {wire.OpCreateSession, []int{2}},
		{wire.OpReclaimComplete, []int{1}}, {wire.OpReclaimComplete, []int{1, 2}},
	} {
		for name, r := range disturbances {
			t.Run(fmt.Sprintf("%v %v %s", step.op, step.numbers, name), func(t *testing.T) {
				t.Parallel()
				f, server := newFront4(t)
				var told atomic.Int32
				s := f.session(server.Targets()["memory"], client.SessionConfig{
					Callbacks: client.Callbacks{Restarted: func() { told.Add(1) }},
				})
				f.react(nth(step.op, r, step.numbers...))
				f.forget(true)
				for range 2 {
					_, err := s.NFS4().Getattr(testserver.Within(t), nil, wire.Bits(wire.Fattr4Size))
					must(t, err)
				}
				f.set(func() {
					if c := f.clients[s.ClientID()]; c == nil || !c.reclaimed {
						t.Error("no RECLAIM_COMPLETE for the client ID")
					}
				})
				must(t, s.Close()) // waits for Restarted
				if n := told.Load(); n != 1 && (n < 1 || r.status == 0 && !r.restart) {
					t.Errorf("Restarted was called %d times", n)
				}
			})
		}
	}
}

// firstPause is the first time that a Session waits before it repeats an attempt to recover.
const firstPause = 100 * time.Millisecond

// A server that refuses a step of the recovery each time is not flooded: each attempt waits twice as
// long as the one before.
func TestRefusedRecoveryDoesNotFloodTheServer(t *testing.T) {
	const request = wire.OpPutRootFH // the first operation after SEQUENCE
	forgotten := reaction{status: wire.NFS4ErrBadSession}
	for name, c := range map[string]struct {
		counted   wire.OpNum
		reactions map[wire.OpNum]reaction
	}{
		"each session is refused": {wire.OpCreateSession, map[wire.OpNum]reaction{request: forgotten}},
		"CREATE_SESSION is refused": {wire.OpCreateSession, map[wire.OpNum]reaction{
			request: forgotten, wire.OpCreateSession: {status: wire.NFS4ErrServerFault},
		}},
		"CREATE_SESSION is out of order": {wire.OpCreateSession, map[wire.OpNum]reaction{
			request: forgotten, wire.OpCreateSession: {status: wire.NFS4ErrSeqMisordered},
		}},
		"EXCHANGE_ID is refused": {wire.OpExchangeID, map[wire.OpNum]reaction{
			request: forgotten, wire.OpCreateSession: {status: wire.NFS4ErrStaleClientID}, wire.OpExchangeID: {status: wire.NFS4ErrServerFault},
		}},
		"no connection is bound": {wire.OpBindConnToSession, map[wire.OpNum]reaction{
			request: {status: wire.NFS4ErrConnNotBoundToSession},
		}},
		"each connection ends": {wire.OpBindConnToSession, map[wire.OpNum]reaction{
			request: {end: true}, wire.OpBindConnToSession: {end: true},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, server := newFront4(t)
			s := f.session(server.Targets()["memory"], client.SessionConfig{})
			const attempts = 4
			at := make(chan time.Time, attempts)
			f.react(func(op wire.OpNum) reaction {
				if op == c.counted && len(at) < attempts {
					at <- time.Now()
				}
				return c.reactions[op]
			})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				_, err := s.NFS4().Getattr(ctx, nil, wire.Bits(wire.Fattr4Size))
				ended <- err
			}()
			await.Until(t, "the session has tried to recover", func() bool { return len(at) == attempts })
			cancel()
			await.Receive(t, "the request ends", ended)
			f.react(nil)
			first, last := <-at, time.Time{}
			for range attempts - 1 {
				last = <-at
			}
			if d, least := last.Sub(first), (1+2+4)*firstPause; d < least {
				t.Errorf("%d attempts in %v, want at least %v", attempts, d, least)
			}
		})
	}
}

// Sessions that take each other's place at the server, as two clients with one Owner do, make no more
// than one new session each firstPause, although their requests succeed meanwhile.
func TestSessionThatIsForgottenAgainAndAgain(t *testing.T) {
	f, server := newFront4(t)
	s := f.session(server.Targets()["memory"], client.SessionConfig{})
	const times = 6
	begin := time.Now()
	for range times {
		f.forget(false)
		_, err := s.NFS4().Getattr(testserver.Within(t), nil, wire.Bits(wire.Fattr4Size))
		must(t, err)
	}
	if d, least := time.Since(begin), (times-1)*firstPause; d < least {
		t.Errorf("%d sessions in %v, want at least %v", times, d, least)
	}
}

// A server may ask to wait at the beginning and at the end of a session.
func TestSessionWaitsWhenAsked(t *testing.T) {
	for _, op := range []wire.OpNum{
		wire.OpExchangeID, wire.OpCreateSession, wire.OpReclaimComplete, wire.OpDestroySession, wire.OpDestroyClientID,
	} {
		f, server := newFront4(t)
		f.react(nth(op, reaction{status: wire.NFS4ErrDelay}, 1))
		s, err := client.DialSession(testserver.Within(t), client.SessionConfig{Target: server.Targets()["memory"]})
		if err != nil {
			t.Fatalf("%v is delayed: %v", op, err)
		}
		if err := s.Close(); err != nil || len(f.clients)+len(f.sessions) > 0 {
			t.Errorf("%v is delayed: %v; %d clients and %d sessions are left", op, err, len(f.clients), len(f.sessions))
		}
	}
}

// If the second address of a trunk leads to another server, nothing is left on the first.
func TestTrunkToAnotherServerLeavesNothing(t *testing.T) {
	f, one := newFront4(t)
	_, two := newFront4(t)
	_, err := client.DialSession(testserver.Within(t), client.SessionConfig{
		Target: one.Targets()["memory"], Trunk: []client.Target{two.Targets()["memory"]},
	})
	if err == nil || len(f.clients)+len(f.sessions) > 0 {
		t.Errorf("%v; %d clients and %d sessions are left", err, len(f.clients), len(f.sessions))
	}
}

// Each method that takes a context ends with it, whatever the server answers.
func TestMethodsEndWithTheirContext(t *testing.T) {
	calls := map[string]func(ctx context.Context, s *client.Session) error{
		"Getattr": func(ctx context.Context, s *client.Session) error {
			_, err := s.NFS4().Getattr(ctx, nil, wire.Bits(wire.Fattr4Size))
			return err
		},
		"patient Write": func(ctx context.Context, s *client.Session) error {
			_, err := client.NFS4{Session: s, Patient: true}.Write(ctx, client.Handle("f"), anonymous, 0, []byte("x"), wire.FileSync4)
			return err
		},
		"ReclaimComplete": func(ctx context.Context, s *client.Session) error { return s.ReclaimComplete(ctx) },
	}
	for name, r := range map[string]reaction{
		"DELAY": {status: wire.NFS4ErrDelay}, "BADSESSION": {status: wire.NFS4ErrBadSession}, "silence": {silent: true},
		"SEQ_MISORDERED": {status: wire.NFS4ErrSeqMisordered}, "CONN_NOT_BOUND": {status: wire.NFS4ErrConnNotBoundToSession}, "reset": {end: true},
	} {
		for _, op := range []wire.OpNum{wire.OpExchangeID, wire.OpCreateSession, wire.OpBindConnToSession, wire.OpSequence} {
			t.Run(name+" to "+op.String(), func(t *testing.T) {
				t.Parallel()
				for _, transport := range []string{"tcp", "memory", "memory2"} {
					f, server := newFront4(t)
					target := server.Targets()[transport]
					s := f.session(target, client.SessionConfig{Timeout: time.Second})
					reached := make(chan struct{}, 1)
					f.react(func(o wire.OpNum) reaction {
						inSession := o == wire.OpPutRootFH || o == wire.OpPutFH || o == wire.OpReclaimComplete || o == wire.OpSequence
						if o != op && !(op == wire.OpSequence && inSession) {
							return reaction{}
						}
						select {
						case reached <- struct{}{}:
						default:
						}
						return r
					})
					dial := func(ctx context.Context) error {
						s, err := client.DialSession(ctx, client.SessionConfig{Target: target, Connections: 2})
						if err == nil {
							s.Abandon()
						}
						return err
					}
					ends(t, "DialSession", reached, dial)
					for what, call := range calls {
						f.forget(true)
						ends(t, what, reached, func(ctx context.Context) error { return call(ctx, s) })
					}
					f.react(nil)
				}
			})
		}
	}
}

// ends calls f, ends its context when the server has shown its reaction, or f has ended before, and
// waits for the end of f.
func ends(t *testing.T, what string, reached chan struct{}, f func(ctx context.Context) error) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	select {
	case <-reached:
		cancel()
		await.Receive(t, what+" ends", ended)
	case <-ended:
	case <-time.After(testserver.Patience):
		cancel() // the session does not come as far as to this step
		await.Receive(t, what+" ends", ended)
	}
}
