package server

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

// The advice for a connection that failed for lack of memory names the limit that is too small.
func TestAdviceForAConnectionNamesTheLimit(t *testing.T) {
	for _, c := range []struct {
		err   error
		names string
	}{
		{fmt.Errorf("96 KiB for messages: ibv_reg_mr: %w", syscall.ENOMEM), "memlock=-1:-1"},
		{fmt.Errorf("672 KiB for messages: %w", rdmacm.ErrNoMemory), "device_memory"},
		{rdmacm.ErrTimeout, "packets are lost"},
	} {
		if remedy := faultRemedy(c.err); !strings.Contains(remedy, c.names) {
			t.Errorf("%v: the advice is %q", c.err, remedy)
		}
	}
}
