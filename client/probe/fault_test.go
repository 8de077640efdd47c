package probe

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// AUTH_BADCRED alone means nothing to a user: the message says that the port may be the reason,
// and the remedy. Other errors stay as they are.
func TestDenialExplainsBadCred(t *testing.T) {
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
