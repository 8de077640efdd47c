package overtime

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// pipe returns the two ends of a TCP connection in memory. When one end has reset the connection,
// the other end can still read the bytes that have arrived, as with a Linux socket.
func pipe(client, server net.Addr) (near, far *socket) {
	up, down := newFlow(), newFlow()
	return &socket{in: down, out: up, local: client, remote: server}, &socket{in: up, out: down, local: server, remote: client}
}

// A socket is one end of a pipe. Write never blocks.
type socket struct {
	in, out       *flow
	local, remote net.Addr
}

// A flow has the bytes of one direction of a pipe.
type flow struct {
	mu       sync.Mutex
	changed  sync.Cond
	bytes    []byte
	end      error // Read returns it after the bytes that have arrived
	shut     error // Read returns it at once, before bytes that have arrived
	deadline time.Time
}

func newFlow() *flow {
	f := new(flow)
	f.changed.L = &f.mu
	return f
}

// stop sets *to, which is f.end or f.shut, unless it is already set. It wakes the reader.
func (f *flow) stop(to *error, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if *to == nil {
		*to = err
	}
	f.changed.Broadcast()
}

func (s *socket) Read(p []byte) (n int, err error) {
	f := s.in
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		switch late := !f.deadline.IsZero() && !time.Now().Before(f.deadline); {
		case f.shut != nil:
			return 0, f.shut
		case late:
			return 0, os.ErrDeadlineExceeded
		case len(f.bytes) > 0:
			n = copy(p, f.bytes)
			f.bytes = f.bytes[n:]
			return n, nil
		case f.end != nil:
			return 0, f.end
		}
		f.changed.Wait()
	}
}

func (s *socket) Write(p []byte) (int, error) {
	f := s.out
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.end != nil || f.shut != nil {
		return 0, syscall.EPIPE
	}
	f.bytes = append(f.bytes, p...)
	f.changed.Broadcast()
	return len(p), nil
}

// CloseWrite sends FIN.
func (s *socket) CloseWrite() error {
	s.out.stop(&s.out.end, io.EOF)
	return nil
}

// Close implements net.Conn.
func (s *socket) Close() error {
	s.out.stop(&s.out.end, io.EOF)
	s.in.stop(&s.in.shut, net.ErrClosed)
	return nil
}

// reset resets the connection in both directions.
func (s *socket) reset() {
	s.out.stop(&s.out.end, syscall.ECONNRESET)
	s.in.stop(&s.in.shut, syscall.ECONNRESET)
}

func (s *socket) LocalAddr() net.Addr  { return s.local }
func (s *socket) RemoteAddr() net.Addr { return s.remote }

func (s *socket) SetReadDeadline(t time.Time) error {
	f := s.in
	f.mu.Lock()
	defer f.mu.Unlock()
	f.deadline = t
	f.changed.Broadcast()
	if wait := time.Until(t); !t.IsZero() && wait > 0 {
		time.AfterFunc(wait, f.changed.Broadcast)
	}
	return nil
}

func (s *socket) SetWriteDeadline(time.Time) error { return nil }

func (s *socket) SetDeadline(t time.Time) error { return s.SetReadDeadline(t) }
