package hostile

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// lookAgain is the interval at which awaitEnd checks whether the daemon has ended the connection.
const lookAgain = 250 * time.Millisecond

// awaitEnd waits until the daemon ends a connection, without reading from it. It returns the error
// that a read would return, or the error of ctx if ctx ends first.
func awaitEnd(ctx context.Context, c *net.TCPConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		var info *unix.TCPInfo
		var infoErr error
		err := raw.Control(func(fd uintptr) {
			info, infoErr = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		})
		if err := errors.Join(err, infoErr); err != nil {
			return err
		}
		switch info.State {
		case unix.BPF_TCP_CLOSE:
			return syscall.ECONNRESET
		case unix.BPF_TCP_CLOSE_WAIT:
			return io.EOF
		}
		wait(ctx, lookAgain)
	}
	return ctx.Err()
}
