package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/providers"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
	"github.com/nfsrdmad/nfsrdmad/transport/tcp"
)

const noPrivateDataNote = "The server sent no RPC-over-RDMA private data (RFC 8797): messages of 1024 bytes and no remote invalidation are assumed."

// late reports whether an error is a time-out.
func late(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, rdmacm.ErrTimeout) ||
		errors.Is(err, syscall.ETIMEDOUT)
}

// protocol returns the target's protocol for error texts. Before a connection exists, only the
// provider is known: the software RNIC speaks iWARP, and a device may speak any protocol of RDMA.
func protocol(t client.Target) string {
	if p := t.Provider; p != nil && p.Name() != providers.IWARP {
		return "RDMA"
	}
	return "iWARP"
}

// dialFault returns a sentence that explains why a connection failed.
func dialFault(t client.Target, err error) string {
	at := t.Address()
	_, notFound := errors.AsType[*net.DNSError](err)
	rejected, isRejected := errors.AsType[*rdmacm.RejectedError](err)
	switch {
	case notFound:
		return fmt.Sprintf("The name %q cannot be resolved.", t.Host)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Sprintf("Nothing listens on %s.", at)
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return fmt.Sprintf("There is no route to %s.", t.Host)
	case isRejected:
		if p, found := wire.ParsePrivateData(rejected.PrivateData); found {
			return fmt.Sprintf("The server at %s rejected the connection, with RPC-over-RDMA private data (inline sizes %d and %d).", at, p.SendSize, p.ReceiveSize)
		}
		return fmt.Sprintf("The server at %s rejected the connection.", at)
	case errors.Is(err, syscall.ENODEV):
		return fmt.Sprintf("No RDMA device of this machine leads to %s: see 'rdma link', and 'nfsrdmad doctor'.", t.Host)
	case late(err) && errors.Is(err, rdmacm.ErrSetup):
		return fmt.Sprintf("%s takes TCP connections but does not answer MPA's request in time: it is not iWARP, or overloaded.", at)
	case late(err):
		return fmt.Sprintf("%s does not answer: no host, or a firewall that drops.", at)
	case errors.Is(err, rdmacm.ErrNoAgreement):
		return fmt.Sprintf("%s speaks iWARP, but the two sides cannot agree on a connection.", at)
	case errors.Is(err, rdmacm.ErrSetup):
		return fmt.Sprintf("%s takes TCP connections but does not speak iWARP: an RDMA listener is not there.", at)
	}
	return fmt.Sprintf("No connection to %s.", at)
}

// callFault returns a sentence that explains why a call got no answer.
func callFault(t client.Target, err error) string {
	at := t.Address()
	refused, isRefused := errors.AsType[*rdma.RefusedError](err)
	re, isReply := errors.AsType[*rpc.ReplyError](err)
	switch {
	case isRefused && refused.Code == wire.ErrVers:
		return fmt.Sprintf("The server at %s does not speak RPC-over-RDMA version 1: it offers %d to %d.", at, refused.Low, refused.High)
	case isRefused:
		return fmt.Sprintf("The server at %s refuses an RPC-over-RDMA header without chunks.", at)
	case isReply && re.Denied && re.Auth != rpc.AuthOK:
		return fmt.Sprintf("The server at %s refuses calls with %v.", at, re.Auth)
	case isReply && re.Denied:
		return fmt.Sprintf("The server at %s does not speak RPC version 2: it offers %d to %d.", at, re.Low, re.High)
	case late(err) && t.Transport == client.RDMA:
		return fmt.Sprintf("%s speaks %s but does not answer RPC-over-RDMA calls in time.", at, protocol(t))
	case late(err):
		return fmt.Sprintf("%s takes TCP connections but does not answer RPC calls in time: not an NFS server, or overloaded.", at)
	case errors.Is(err, tcp.ErrNoRecord):
		return fmt.Sprintf("%s takes TCP connections but does not speak RPC: what it sent is no record of RPC.", at)
	case errors.Is(err, rpc.ErrCallLost), errors.Is(err, io.EOF):
		if t.Transport == client.RDMA {
			return fmt.Sprintf("%s speaks %s but ended the connection on an RPC-over-RDMA call.", at, protocol(t))
		}
		return fmt.Sprintf("%s takes TCP connections but does not speak RPC: it ended the connection on a call.", at)
	}
	return fmt.Sprintf("A call to %s failed.", at)
}

// denial returns the text of a call's error. If the server denied the call with AUTH_BADCRED, it
// adds an explanation, because servers use that for several reasons.
func denial(err error) string {
	if re, ok := errors.AsType[*rpc.ReplyError](err); ok && re.Denied && re.Auth == rpc.AuthBadCred {
		return fmt.Sprintf("%v: the server has no export for this address, or only ones that take a port below 1024 (the option secure), which a probe has as root alone", err)
	}
	return err.Error()
}

// noNFSFault returns a sentence about an RPC server that does not serve NFS.
func noNFSFault(t client.Target, programs []Program) string {
	for _, p := range programs {
		if p.Name == "nfs" {
			return fmt.Sprintf("The server at %s knows NFS but answers none of its versions (it names %d to %d).", t.Address(), p.Low, p.High)
		}
	}
	return fmt.Sprintf("The server at %s speaks RPC, but not NFS.", t.Address())
}
