package krb5

import (
	stdcontext "context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// If a KDC does not answer, a caller waits until its own context ends. The requests continue until
// the library's time-outs. The number of requests is bounded, and there is at most one for each
// server.
func TestSilentKDCsHoldFewQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a asks
		var running, began atomic.Int64
		silent := func() (*ticket, error) {
			began.Add(1)
			running.Add(1)
			defer running.Add(-1)
			time.Sleep(40 * time.Second) // the library's time-outs
			return nil, errors.New("no KDC answers")
		}
		ask := func(server string) error {
			ctx, cancel := stdcontext.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, err := a.ask(ctx, server, silent)
			return err
		}
		start := time.Now()
		failed := make(chan error)
		for range 100 {
			go func() { failed <- ask("nfs/a@TEST") }()
		}
		for range 100 {
			if err := <-failed; !errors.Is(err, stdcontext.DeadlineExceeded) {
				t.Fatal(err)
			}
		}
		if took := time.Since(start); took != 10*time.Second || began.Load() != 1 {
			t.Errorf("%d questions for one server in %v", began.Load(), took)
		}
		for i := range 100 {
			go func() { failed <- ask(fmt.Sprintf("nfs/%d@TEST", i)) }()
		}
		for range 100 {
			<-failed
		}
		if n := running.Load(); n != maxAsks {
			t.Errorf("%d questions are under way", n)
		}
		time.Sleep(time.Minute)
		if n, counted := running.Load(), a.running.Load(); n != 0 || counted != 0 {
			t.Errorf("%d questions are left, and counted as %d", n, counted)
		}
		// All callers that wait for one request get its result.
		k := &ticket{server: "nfs/a@TEST"}
		for range 2 {
			go func() {
				got, err := a.ask(t.Context(), "nfs/a@TEST", func() (*ticket, error) { time.Sleep(time.Second); return k, nil })
				if got != k {
					err = errors.New("another ticket")
				}
				failed <- err
			}()
		}
		for range 2 {
			if err := <-failed; err != nil {
				t.Error(err)
			}
		}
	})
}

func TestIsService(t *testing.T) {
	for principal, want := range map[string]bool{
		"nfs/host.example.org@EXAMPLE.ORG": true, "host/h@R": true,
		"user@R": false, "nfs/host": false, "nfs/host@": false, "a/b/c@R": false, `nfs\/host@R`: false, `nfs/ho\/st@R`: false,
		"": false, "nfs/@R": false, "/host@R": false, "CLIENT$@R": false,
	} {
		if IsService(principal) != want {
			t.Errorf("%q: %v", principal, !want)
		}
	}
}

// IsMachine returns true for the names under which machines mount, and false for other principals,
// such as a user's principal with an instance.
func TestIsMachine(t *testing.T) {
	for principal, want := range map[string]bool{
		"nfs/host.example.org@EXAMPLE.ORG": true, "host/h@R": true, "root/h@R": true, "CLIENT$@R": true,
		"user@R": false, "alice/admin@R": false, "nfs/host": false, "CLIENT$": false, "nfs/a/b@R": false, "": false,
	} {
		if IsMachine(principal) != want {
			t.Errorf("%q: %v", principal, !want)
		}
	}
}

func TestConfOfTheEnvironment(t *testing.T) {
	for env, want := range map[string]string{"": "/etc/krb5.conf", "/a": "/a", "/a:/b": "/a"} {
		t.Setenv("KRB5_CONFIG", env)
		if got := New(Config{}).config.Conf; got != want {
			t.Errorf("%q: %s", env, got)
		}
		if got := New(Config{Conf: "/c"}).config.Conf; got != "/c" {
			t.Errorf("%q: %s", env, got)
		}
	}
}
