package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"syscall"
)

// lowestReserved and highestReserved are the range of client ports below 1024 that mount.nfs uses,
// too. Lower ports belong to services.
const (
	lowestReserved  = 665
	highestReserved = 1023
)

// reservedTries is the number of reserved ports that are tried before an ordinary port is used.
const reservedTries = 64

// dialReserved connects from a port that only a privileged process can use, because servers require
// such a port by default. If this process is not privileged, or such ports are in use, it connects
// from any port.
func dialReserved(ctx context.Context, network, address string) (net.Conn, error) {
	first := rand.IntN(highestReserved - lowestReserved + 1)
	for i := range reservedTries {
		port := lowestReserved + (first+i)%(highestReserved-lowestReserved+1)
		d := net.Dialer{LocalAddr: &net.TCPAddr{Port: port}}
		c, err := d.DialContext(ctx, network, address)
		switch {
		case err == nil:
			return c, nil
		case errors.Is(err, syscall.EADDRINUSE), errors.Is(err, syscall.EADDRNOTAVAIL):
			continue
		case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
			return new(net.Dialer).DialContext(ctx, network, address)
		}
		return nil, err
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}
