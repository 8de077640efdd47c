package verbs

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/device"
)

// closed is a library that opens no event channel.
type closed struct{ err error }

func (c closed) Open() (device.Channel, error) {
	return nil, fmt.Errorf("rdma_create_event_channel: %w", c.err)
}

// If the library opens no event channel, the error names the node that is missing, and not the
// other one. Each node has a module and an option of container engines of its own.
func TestErrorNamesTheMissingNode(t *testing.T) {
	manager, device := []string{"modprobe rdma_ucm", "/dev/infiniband/rdma_cm"}, []string{"modprobe ib_uverbs", "/dev/infiniband/uverbsN"}
	for _, c := range []struct {
		err           error
		names, others []string
	}{
		{syscall.ENOENT, manager, device},
		{syscall.ENODEV, device, manager},
		{syscall.EPERM, []string{"nfsrdmad doctor"}, append(manager, device...)},
	} {
		_, err := New(Config{Library: closed{c.err}})
		if !errors.Is(err, c.err) {
			t.Errorf("%v became %v", c.err, err)
			continue
		}
		for _, name := range c.names {
			if !strings.Contains(err.Error(), name) {
				t.Errorf("%q does not name %q", err, name)
			}
		}
		for _, other := range c.others {
			if strings.Contains(err.Error(), other) {
				t.Errorf("%q names %q", err, other)
			}
		}
	}
}
