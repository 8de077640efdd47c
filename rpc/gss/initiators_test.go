package gss_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss/gsstest"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
)

// A server makes a context with its client under the server's name that the test chose, and calls
// the client.
func TestInitiatorsMakeContexts(t *testing.T) {
	s := newSite(t, gss.Config{})
	initiators := gss.NewInitiators(func(own string) gss.Mechanism {
		m := gsstest.New()
		m.Name = own
		return m
	})
	for _, own := range []string{"nfs/a@TEST", "nfs/b@TEST"} {
		p, err := initiators.Prepare(t.Context(), own, s.config(rpc.GSSIntegrity))
		if err != nil {
			t.Fatal(err)
		}
		k, err := p.Client(t.Context(), s.wire())
		if err != nil {
			t.Fatal(err)
		}
		x := rpctest.NewExchange(rpctest.BUMP, put(tag))
		if err := rpc.Do(t.Context(), k, x, nil); err != nil {
			t.Error(err)
		}
		k.Close()
	}
	if st := s.gss.Stats(); st.Made != 2 || st.Destroyed != 2 || st.Calls != 4 {
		t.Errorf("%+v", st)
	}
}

// If there is no ticket for a peer, the server does not try that peer again for 30 seconds, however
// often a client names it. Contexts with other peers do not wait. The number of stored failures is
// bounded.
func TestPeersWithoutTicketsRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		initiators := gss.NewInitiators(func(string) gss.Mechanism {
			m := gsstest.New()
			m.Unreachable = func(ctx context.Context) error {
				asked.Add(1)
				<-ctx.Done()
				return context.Cause(ctx)
			}
			return m
		})
		prepare := func(target string) error {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, err := initiators.Prepare(ctx, "nfs/server@TEST", gss.ClientConfig{Target: target, Service: rpc.GSSNone})
			return err
		}
		if err := prepare("nfs/a@TEST"); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		start := time.Now()
		for range 100 {
			if err := prepare("nfs/a@TEST"); err == nil || !strings.Contains(err.Error(), "tried again in 30s") {
				t.Fatal(err)
			}
		}
		if time.Since(start) > 0 || asked.Load() != 1 {
			t.Errorf("%d questions in %v", asked.Load(), time.Since(start))
		}
		if prepare("nfs/b@TEST"); asked.Load() != 2 {
			t.Error("another peer is not asked for")
		}
		time.Sleep(30 * time.Second)
		if prepare("nfs/a@TEST"); asked.Load() != 3 {
			t.Error("it is not asked for after its rest")
		}
		for i := range 3 * gss.MaxFailures / 2 {
			go prepare(fmt.Sprintf("nfs/%d@TEST", i))
		}
		synctest.Wait()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := initiators.Failures(); n > gss.MaxFailures {
			t.Errorf("%d peers rest", n)
		}
	})
}

// The number of a server's own names is bounded.
func TestInitiatorsAreBounded(t *testing.T) {
	made := 0
	initiators := gss.NewInitiators(func(string) gss.Mechanism {
		made++
		return gsstest.New()
	})
	failed := 0
	for i := range 100 {
		if _, err := initiators.Prepare(t.Context(), fmt.Sprint(i), gss.ClientConfig{Target: "nfs/a@TEST", Service: rpc.GSSNone}); err != nil {
			failed++
		}
	}
	if made > 16 || failed != 100-made {
		t.Errorf("%d mechanisms, %d failures", made, failed)
	}
}
