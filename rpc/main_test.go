package rpc_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/nfsrdmad/nfsrdmad/test/await"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ended waits until ch receives a value or is closed. It fails the test after a time limit.
func ended[T any](t testing.TB, ch <-chan T) T {
	t.Helper()
	return await.Receive(t, "what the test began ends", ch)
}
