package probe

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// For AUTH_BADCRED, denial adds that the port may be the reason, and the remedy, because the name
// alone tells a user nothing. It does not change other errors.
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
