package probe

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// AUTH_BADCRED alone tells a user nothing: that the port may be the reason, and what to do, is
// said with it. Other errors are as they are.
func TestDenialSaysWhatItMeans(t *testing.T) {
	if text := denial(fmt.Errorf("client: %w", &rpc.ReplyError{Denied: true, Auth: rpc.AuthBadCred})); !strings.Contains(text, "AUTH_BADCRED") ||
		!strings.Contains(text, "secure") || !strings.Contains(text, "root") {
		t.Error(text)
	}
	for _, err := range []error{errors.New("no answer"), &rpc.ReplyError{Denied: true, Auth: rpc.AuthTooWeak}} {
		if denial(err) != err.Error() {
			t.Error(denial(err))
		}
	}
}
