package rpcbind_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpcbind"
)

// On a machine without rpcbind, a Client tries its socket and then its port, and the error names both.
func TestMachineWithoutRpcbind(t *testing.T) {
	var tried []string
	c := rpcbind.Client{Dial: func(_ context.Context, network, address string) (rpc.Client, error) {
		tried = append(tried, address)
		return nil, errors.New("nobody listens on " + address)
	}}
	_, err := c.Dump(t.Context())
	if len(tried) != 2 || tried[0] != rpcbind.LocalSocket || tried[1] != rpcbind.LocalAddress {
		t.Errorf("tried %v", tried)
	}
	if err == nil || !strings.Contains(err.Error(), rpcbind.LocalSocket) || !strings.Contains(err.Error(), rpcbind.LocalAddress) {
		t.Errorf("the error is %v", err)
	}
}
