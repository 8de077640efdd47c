package client

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// ErrTooLong means that a request is longer than the server takes (RFC 8881 §18.36.3,
// ca_maxrequestsize). It was not sent, because a server may end the connection on such a request.
var ErrTooLong = errors.New("client: the request is longer than the server takes")

// Sizes are the largest READ and the largest WRITE that a server takes, in bytes, as far as it has
// said so. NFS3 and NFS4 send no larger ones: a server may return and may take fewer bytes than it
// is asked to (RFC 1813 §3.3.6, §3.3.7), so the caller goes on where the answer ends. Any goroutine
// may use them.
type Sizes struct{ read, write atomic.Int64 } // 0 means unknown

// smallTransfer is a length of READ and WRITE that every server takes, in bytes: the largest of NFS
// version 2 (RFC 1094 §2.3.1).
const smallTransfer = 8 << 10

// set stores the sizes. A size that is not positive is unknown.
func (s *Sizes) set(read, write int64) {
	s.read.Store(read)
	s.write.Store(write)
}

// cutRead and cutWrite return the part of p that one READ or WRITE may carry.
func (s *Sizes) cutRead(p []byte) []byte  { return cut(p, s.read.Load()) }
func (s *Sizes) cutWrite(p []byte) []byte { return cut(p, s.write.Load()) }

func cut(p []byte, most int64) []byte {
	if most > 0 && int64(len(p)) > most {
		return p[:most]
	}
	return p
}

// learn stores the sizes of a file system (RFC 1813 §3.3.19). If the server's file systems differ,
// the smallest sizes count. A size of 0 says nothing.
func (s *Sizes) learn(info *nfs3wire.Fsinfo3ResOK) {
	lower(&s.read, int64(info.ReadMax))
	lower(&s.write, int64(info.WriteMax))
}

func lower(size *atomic.Int64, to int64) {
	for {
		now := size.Load()
		if to <= 0 || now > 0 && now <= to || size.CompareAndSwap(now, to) {
			return
		}
	}
}

// writable returns the part of p that one WRITE may carry. If that is not known and p is long, it
// asks the server. A server that does not answer the question gets a WRITE of smallTransfer.
func (n NFS3) writable(ctx context.Context, file Handle, p []byte) ([]byte, error) {
	if n.Sizes == nil || len(p) <= smallTransfer {
		return p, nil
	}
	if n.Sizes.write.Load() == 0 {
		_, err := n.Fsinfo(ctx, file)
		_, refused := errors.AsType[*StatusError](err)
		_, denied := errors.AsType[*rpc.ReplyError](err)
		if err != nil && !refused && !denied {
			return nil, err
		}
		if n.Sizes.write.Load() == 0 {
			return cut(p, smallTransfer), nil
		}
	}
	return n.Sizes.cutWrite(p), nil
}

// sizeLocked computes the session's Sizes: what the limits of its channel leave for data (RFC 8881
// §18.36.3), and not more than the server's attributes maxread and maxwrite.
func (s *Session) sizeLocked() {
	call, reply := s.cfg.callHeader(), rpc.ReplyHeader
	if s.cfg.Security != nil {
		call, reply = rpc.MaxCallHeader+protectionRoom, rpc.ReplyHeader+rpc.MaxAuthBytes+protectionRoom
	}
	channel := &s.limits.ForeChanAttrs
	write := int64(channel.Maxrequestsize) - int64(call+sequenceRoom+writeRoom)
	read := int64(channel.Maxresponsesize) - int64(reply+sequenceResult+readResults)
	if s.maxWrite > 0 {
		write = min(write, s.maxWrite)
	}
	if s.maxRead > 0 {
		read = min(read, s.maxRead)
	}
	s.sizes.set(max(read&^3, 4), max(write&^3, 4)) // padding counts, too
}

// protectionRoom is more than RPCSEC_GSS adds to arguments or results, in bytes.
const protectionRoom = 1 << 10

// callHeader returns the length of a call's header, in bytes.
func (cfg *SessionConfig) callHeader() int { return (&rpc.Exchange{Cred: cfg.Cred}).HeaderSize() }

// writeRoom is the largest length of PUTFH and WRITE without the data, in bytes.
const writeRoom = 4 + 4 + nfs4wire.NFS4FHSize + 4 + nfs4wire.StateID4MaxSize + 8 + 4 + 4

// tooLong returns the error of a request of n bytes that is longer than most.
func tooLong(n, most int) error {
	return fmt.Errorf("%w: %d bytes, at most %d", ErrTooLong, n, most)
}
