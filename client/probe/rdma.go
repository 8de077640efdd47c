package probe

import (
	"fmt"
	"strings"
)

// RPCRDMA holds the server's parameters of RPC-over-RDMA. Those outside of Version2 are of version 1 (RFC
// 8166, RFC 8797).
type RPCRDMA struct {
	// Versions are the versions of RPC-over-RDMA that the server speaks, as far as calls or set-up showed.
	Versions []int     `json:"versions"`
	Version2 *RPCRDMA2 `json:"version2,omitempty"`
	// PrivateData is true if the server sent private data (RFC 8797). If not, the defaults of
	// that RFC hold.
	PrivateData bool `json:"private_data"`
	// InlineSend and InlineReceive are the server's inline thresholds, in bytes. CallLimit is the
	// inline threshold of messages from the client to the server, and ReplyLimit that of messages
	// from the server to the client, in bytes: each is the smaller of the sender's and the
	// receiver's threshold.
	InlineSend         int    `json:"inline_send"`
	InlineReceive      int    `json:"inline_receive"`
	CallLimit          int    `json:"call_limit"`
	ReplyLimit         int    `json:"reply_limit"`
	RemoteInvalidation bool   `json:"remote_invalidation"`
	Credits            uint32 `json:"credits"`
}

// speaks returns the versions as a text.
func (r *RPCRDMA) speaks() string {
	if len(r.Versions) == 0 {
		return "no version was found"
	}
	return choose(len(r.Versions) > 1, "versions ", "version ") + strings.Join(strings.Fields(strings.Trim(fmt.Sprint(r.Versions), "[]")), ", ")
}

func (b *prober) describeCarrier() {
	if i, ok := b.conn.Info(); ok {
		b.out.Carrier, b.out.IWARP = &i.Carrier, i.Carrier.MPA
	}
}

func (b *prober) describeRPCRDMA() {
	i, ok := b.conn.Info()
	if !ok {
		return
	}
	b.out.RPCRDMA = &RPCRDMA{
		Versions:    []int{},
		PrivateData: i.Found,
		InlineSend:  i.Private.SendSize, InlineReceive: i.Private.ReceiveSize,
		CallLimit: i.SendLimit, ReplyLimit: i.ReceiveLimit,
		RemoteInvalidation: i.Private.RemoteInvalidation,
		Credits:            i.Granted,
	}
	if b.out.NFS {
		b.out.RPCRDMA.Versions = append(b.out.RPCRDMA.Versions, 1)
	}
	if !i.Found {
		b.out.Notes = append(b.out.Notes, noPrivateDataNote)
	}
	if i.Granted <= 1 && b.out.Fault == "" {
		b.out.Notes = append(b.out.Notes, "The server grants one credit: calls are made one after the other.")
	}
}
