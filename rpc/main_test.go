package rpc_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/nfsrdmad/nfsrdmad/test/await"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ended waits for the end of something that the test began: a call, a server, a
// goroutine.
func ended[T any](t testing.TB, ch <-chan T) T {
	t.Helper()
	return await.Receive(t, "what the test began ends", ch)
}
