package admin

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// longestPath is the longest name of a Unix socket, in bytes (unix(7)).
const longestPath = 107

// Listen makes the socket, with mode 0600. It replaces a socket on which nothing listens, such as one that an earlier
// daemon left, and no other. Close of the listener removes the socket that Listen made.
func Listen(path string) (net.Listener, error) {
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("%s is there, and is no socket: remove it, or name another path", path)
	default:
		if !abandoned(path) {
			return nil, fmt.Errorf("another program listens on %s: end it if it is another daemon, or name another path", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	l, err := listen(path)
	if err != nil {
		return nil, err
	}
	made, err := os.Lstat(path)
	if err != nil {
		l.Close()
		return nil, err
	}
	return &listener{Listener: l, path: path, made: made}, nil
}

// abandoned reports whether no program listens on the socket at path, of whichever type it is.
func abandoned(path string) bool {
	short, done, err := shortened(path)
	if err != nil {
		return false
	}
	defer done()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return unix.Connect(fd, &unix.SockaddrUnix{Name: short}) == unix.ECONNREFUSED
}

func listen(path string) (l *net.UnixListener, err error) {
	short, done, err := shortened(path)
	if err != nil {
		return nil, err
	}
	defer done()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close() // FileListener has a descriptor of its own
	// On Linux the path gets the mode that the socket has at bind(2), so other users can never connect, as they could before a chmod.
	if err = unix.Fchmod(fd, 0o600); err == nil {
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: short})
	}
	if err == nil {
		err = unix.Listen(fd, 16)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	made, err := net.FileListener(file)
	if err != nil {
		return nil, err
	}
	return made.(*net.UnixListener), nil
}

// shortened returns a name of the path that fits into the address of a socket. The name is good until done is called.
func shortened(path string) (short string, done func(), err error) {
	if len(path) <= longestPath {
		return path, func() {}, nil
	}
	dir, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", filepath.Dir(path), err)
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir, filepath.Base(path)), func() { unix.Close(dir) }, nil
}

// A listener accepts connections. Each knows whether its peer may ask.
type listener struct {
	net.Listener
	path string
	made os.FileInfo // what Listen has put at path
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, refused: refusal(c)}, nil
}

func (l *listener) Close() error {
	err := l.Listener.Close()
	if now, stat := os.Lstat(l.path); stat == nil && os.SameFile(now, l.made) {
		_ = os.Remove(l.path)
	}
	return err
}

type conn struct {
	net.Conn
	refused error // why the peer may ask nothing, or nil
}

// refusal returns nil if the peer is root or the user of this process. The mode of the socket says the same; but an
// administrator may have changed it, and a descriptor may have been passed on.
func refusal(c net.Conn) error {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return errors.New("this is no Unix socket")
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	if controlled := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); controlled != nil {
		err = controlled
	}
	switch {
	case err != nil:
		return fmt.Errorf("cannot find out which user connected to the daemon's socket: %w", err)
	case peer.Uid != 0 && int(peer.Uid) != os.Geteuid():
		return fmt.Errorf("user %d may not ask the daemon: run the command as root or as user %d", peer.Uid, os.Geteuid())
	}
	return nil
}

// explain says why a daemon cannot be asked, and what to do.
func explain(path string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOENT):
		return fmt.Errorf("no daemon answers: there is no socket %s. Start the daemon, or name its socket with --socket, or its state directory with --state-dir", path)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("no daemon answers: nothing listens on %s. The daemon has ended without removing the socket; start it", path)
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return fmt.Errorf("%s: permission denied: run the command as root, or as the user of the daemon", path)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return fmt.Errorf("the daemon at %s ended in the middle of its answer: see its log; an order that it had begun may have taken effect", path)
	}
	return err
}
