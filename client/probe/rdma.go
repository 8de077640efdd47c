package probe

import "github.com/nfsrdmad/nfsrdmad/rdmacm"

// Carrier describes the local side of the RDMA connection: the provider, its device if it has one,
// and the protocol ("iWARP", "InfiniBand" or "RoCE"). Shortcomings are the rules of package rdmacm
// that the device cannot keep.
type Carrier struct {
	Provider string `json:"provider"`
	Device   string `json:"device,omitempty"`
	Protocol string `json:"protocol"`

	Shortcomings []rdmacm.Shortcoming `json:"shortcomings,omitempty"`
}

// IWARP holds the parameters that the two RNICs agreed on (RFC 5044, RFC 6581).
type IWARP struct {
	// Revision is the MPA revision. Enhanced is true if the RNICs exchanged the data of RFC 6581.
	Revision uint8 `json:"mpa_revision"`
	Enhanced bool  `json:"enhanced"`
	CRC      bool  `json:"crc"`
	// Markers is true if the peer wants markers in the data sent to it.
	Markers bool `json:"markers"`
	// PeerIRD and PeerORD are the peer's values, or -1 if it stated none. IRD is the number
	// of RDMA Reads that the peer may have outstanding, ORD the number that this side may
	// have outstanding.
	PeerIRD int `json:"peer_ird"`
	PeerORD int `json:"peer_ord"`
	IRD     int `json:"ird"`
	ORD     int `json:"ord"`
	// PeerToPeer is true if the connection follows the peer-to-peer model of RFC 6581. RTR is the
	// form of its ready-to-receive message.
	PeerToPeer bool   `json:"peer_to_peer"`
	RTR        string `json:"rtr,omitempty"`
}

// RPCRDMA holds the server's parameters of RPC-over-RDMA version 1 (RFC 8166, RFC 8797).
type RPCRDMA struct {
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

func (b *prober) describeCarrier() {
	i, ok := b.conn.Info()
	if !ok {
		return
	}
	c := i.Carrier
	b.out.Carrier = &Carrier{Provider: c.Provider, Device: c.Device, Protocol: c.Protocol, Shortcomings: c.Shortcomings}
	b.out.IWARP = (*IWARP)(c.MPA)
}

func (b *prober) describeRPCRDMA() {
	i, ok := b.conn.Info()
	if !ok {
		return
	}
	b.out.RPCRDMA = &RPCRDMA{
		PrivateData: i.Found,
		InlineSend:  i.Private.SendSize, InlineReceive: i.Private.ReceiveSize,
		CallLimit: i.SendLimit, ReplyLimit: i.ReceiveLimit,
		RemoteInvalidation: i.Private.RemoteInvalidation,
		Credits:            i.Granted,
	}
	if !i.Found {
		b.out.Notes = append(b.out.Notes, noPrivateDataNote)
	}
	if i.Granted <= 1 && b.out.Fault == "" {
		b.out.Notes = append(b.out.Notes, "The server grants one credit: calls are made one after the other.")
	}
}
