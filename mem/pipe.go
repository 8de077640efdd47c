package mem

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// PipeSize is how much one Pipe holds, in bytes, where the file's part starts at a page.
const PipeSize = 1 << 20

// A Pipe is a pipe of the kernel that holds a part of a file on its way to a socket
// (splice(2)). The bytes are not copied: the pipe refers to the pages that the file has
// in memory. What is written to them before the socket has sent them is sent as it is
// then. A file that is made shorter keeps its pages for the pipe, so that what is in
// the pipe stays as long as it is.
//
// What is in a Pipe is pinned memory, although it is not the arena's. So a Pipe comes
// with a Buffer at least as long, whose bytes it takes the place of: they are charged to
// the same share. One goroutine at a time uses a Pipe.
type Pipe struct {
	r, w   int
	slots  int // pages that it takes
	left   int
	buffer *Buffer
	next   *Pipe // of the pool's stock
}

// pipes are a Pool's. They are made when they are needed, and kept.
type pipes struct {
	most    int // at a time; none any more after one could not be made as large
	open    int
	stock   *Pipe // empty ones
	lent    uint64
	refused uint64
}

// Pipe hands out an empty Pipe in place of b's bytes, at most PipeSize of them, which
// must not be used meanwhile. It retains b. It is nil where there is none to be had:
// one share may have a quarter of the pool's pipes, one client half of them.
func (b *Buffer) Pipe() *Pipe {
	s := b.share
	p, c := s.pool, s.client
	p.mu.Lock()
	n := &p.pipes
	k := n.stock
	if p.closed || s.pipes >= (n.most+3)/4 || c.pipes >= (n.most+1)/2 || k == nil && n.open >= n.most {
		n.refused++
		p.mu.Unlock()
		return nil
	}
	s.pipes++
	c.pipes++
	if k != nil {
		n.stock, k.next = k.next, nil
	} else {
		n.open++
	}
	n.lent++
	p.mu.Unlock()
	if k == nil {
		if k = openPipe(); k == nil {
			p.mu.Lock()
			s.pipes--
			c.pipes--
			n.open--
			n.most = n.open
			n.refused++
			n.lent--
			p.mu.Unlock()
			return nil
		}
	}
	b.Retain()
	k.buffer = b
	return k
}

// openPipe makes a pipe that takes PipeSize bytes of pages. It fails where the process
// has too many descriptors, where the system allows no pipe as large
// (/proc/sys/fs/pipe-max-size), or where the user has too many and the process has not
// the capabilities to go beyond that (/proc/sys/fs/pipe-user-pages-soft): see pipe(7).
func openPipe() *Pipe {
	var fd [2]int
	if unix.Pipe2(fd[:], unix.O_CLOEXEC|unix.O_NONBLOCK) != nil {
		return nil
	}
	k := &Pipe{r: fd[0], w: fd[1]}
	size, err := unix.FcntlInt(uintptr(k.w), unix.F_SETPIPE_SZ, PipeSize)
	if err != nil || size < PipeSize {
		k.close()
		return nil
	}
	k.slots = size / os.Getpagesize()
	return k
}

func (k *Pipe) close() {
	unix.Close(k.r)
	unix.Close(k.w)
}

// Takes says whether n bytes of a file from offset on fit the pipe, which takes whole
// pages.
func (k *Pipe) Takes(offset int64, n int) bool {
	page := int64(os.Getpagesize())
	return n <= len(k.buffer.bytes) && (offset%page+int64(n)+page-1)/page <= int64(k.slots)
}

// Fill puts n bytes of the open file fd, from offset on, into the pipe, which is empty and
// takes them. It reads from the disk what is not in memory, and waits for that. Fewer bytes
// are in the pipe where the file ends, or where an error came behind them; ended tells
// the two apart.
func (k *Pipe) Fill(fd int, offset int64, n int) (got int, ended bool, err error) {
	for got < n {
		more, err := unix.Splice(fd, &offset, k.w, nil, n-got, unix.SPLICE_F_NONBLOCK)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil && got == 0:
			return 0, false, err
		case err != nil:
			return got, false, nil
		case more == 0:
			return got, true, nil
		}
		got += int(more)
		k.left = got
	}
	return got, false, nil
}

// Left is how many bytes are in the pipe.
func (k *Pipe) Left() int { return k.left }

// splice is unix.Splice. Tests have it end early.
var splice = unix.Splice

// Send takes bytes out of the pipe for the socket fd, as many as it takes at once. more
// says that the caller has other bytes to send right behind them. With EAGAIN the socket is
// full, and tells when it is not any more: fewer bytes alone do not mean that, since a signal
// ends a splice as well, such as those by which the Go runtime preempts goroutines. Any other
// error may be the file's: a page of it that turned out not to be readable.
func (k *Pipe) Send(fd int, more bool) (sent int, err error) {
	flags := unix.SPLICE_F_NONBLOCK
	if more {
		flags |= unix.SPLICE_F_MORE
	}
	for k.left > 0 {
		n, err := splice(k.r, nil, fd, nil, k.left, flags)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil:
			return sent, err
		case n == 0:
			// The bytes are in the pipe: the kernel has found them to be gone.
			return sent, syscall.EIO
		}
		k.left -= int(n)
		sent += int(n)
	}
	return sent, nil
}

// Release gives the pipe back, and the reference to its Buffer. What it still holds is
// dropped.
func (k *Pipe) Release() {
	b := k.buffer
	if b == nil {
		panic("mem: Release of a released Pipe")
	}
	k.buffer = nil
	s := b.share
	p := s.pool
	p.mu.Lock()
	s.pipes--
	s.client.pipes--
	keep := k.left == 0 && !p.closed && p.pipes.open <= p.pipes.most
	if keep {
		k.next, p.pipes.stock = p.pipes.stock, k
	} else {
		p.pipes.open--
	}
	p.mu.Unlock()
	if !keep {
		k.close()
	}
	b.Release()
}

// closePipes closes those that no one uses. p.mu is held: none of them has anything in
// it, so that closing them does not wait.
func (p *Pool) closePipes() {
	for k := p.pipes.stock; k != nil; k = k.next {
		k.close()
		p.pipes.open--
	}
	p.pipes.stock = nil
}
