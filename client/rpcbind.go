package client

import (
	"context"
	"fmt"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpcbind"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// Numbers of rpcbind, by its old name the port mapper (RFC 1833 §3).
const (
	rpcbindProgram = rpcbind.Program
	portmapVersion = 2
	procNull       = 0
	procGetPort    = 3 // version 2
	procGetAddr    = 3 // versions 3 and 4
	procDump       = 4
	procGetTime    = 6 // versions 3 and 4
	protocolTCP    = 6
)

// An UnregisteredError: a host's rpcbind knows no such program over TCP.
type UnregisteredError struct {
	Host             string
	Program, Version uint32
}

func (e *UnregisteredError) Error() string {
	return fmt.Sprintf("client: rpcbind of %s knows no program %d version %d over TCP", e.Host, e.Program, e.Version)
}

// GetPort asks the rpcbind of a host where a program listens on TCP (RFC 1833
// §3.2).
func GetPort(ctx context.Context, host string, program, version uint32) (int, error) {
	c, err := Dial(ctx, Target{Transport: TCP, Host: host, Port: PortRPCBind})
	if err != nil {
		return 0, fmt.Errorf("client: rpcbind: %w", err)
	}
	defer c.Close()
	var port uint32
	err = c.Call(ctx, &rpc.Exchange{
		Program: rpcbindProgram, Version: portmapVersion, Procedure: procGetPort,
		Args: func(w *xdr.Writer) {
			w.Uint32(program)
			w.Uint32(version)
			w.Uint32(protocolTCP)
			w.Uint32(0)
		},
		MaxArgs: 16, MaxResults: 4,
	}, func(d *xdr.Decoder) error {
		port = d.Uint32()
		return d.Err()
	})
	switch {
	case err != nil:
		return 0, fmt.Errorf("client: rpcbind of %s: %w", host, err)
	case port == 0 || port > 65535:
		return 0, &UnregisteredError{host, program, version}
	}
	return int(port), nil
}
