package client

import "github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"

// ProbedIWARP is what the two RNICs agreed on.
type ProbedIWARP struct {
	// Revision of MPA; Enhanced: with the data of RFC 6581.
	Revision uint8 `json:"mpa_revision"`
	Enhanced bool  `json:"enhanced"`
	CRC      bool  `json:"crc"`
	// Markers: the peer wants markers in what is sent to it.
	Markers bool `json:"markers"`
	// PeerIRD and PeerORD are what the peer stated, -1 where it did not; IRD
	// and ORD are how many RDMA Reads may be outstanding: of the peer, of
	// this side.
	PeerIRD int `json:"peer_ird"`
	PeerORD int `json:"peer_ord"`
	IRD     int `json:"ird"`
	ORD     int `json:"ord"`
	// PeerToPeer: RFC 6581's model, with this ready-to-receive message.
	PeerToPeer bool   `json:"peer_to_peer"`
	RTR        string `json:"rtr,omitempty"`
}

// ProbedRPCRDMA is what the server said of RPC-over-RDMA version 1.
type ProbedRPCRDMA struct {
	// PrivateData: the server sent RFC 8797's. Without it the defaults hold.
	PrivateData bool `json:"private_data"`
	// InlineSend and InlineReceive are the server's, in bytes; the limits
	// what holds for calls and for replies.
	InlineSend         int    `json:"inline_send"`
	InlineReceive      int    `json:"inline_receive"`
	CallLimit          int    `json:"call_limit"`
	ReplyLimit         int    `json:"reply_limit"`
	RemoteInvalidation bool   `json:"remote_invalidation"`
	Credits            uint32 `json:"credits"`
}

// rtrNames are the forms of the ready-to-receive message (RFC 6581 §9.2).
var rtrNames = map[wire.RTR]string{wire.RTRSend: "send", wire.RTRWrite: "write", wire.RTRRead: "read"}

func (b *prober) describeIWARP() {
	s, ok := b.conn.Setup()
	if !ok {
		return
	}
	d := &ProbedIWARP{
		Revision: uint8(s.Revision), Enhanced: s.Enhanced, CRC: s.CRC, Markers: s.Markers,
		PeerIRD: s.PeerIRD, PeerORD: s.PeerORD, IRD: s.IRD, ORD: s.ORD, PeerToPeer: s.PeerToPeer,
	}
	if s.PeerToPeer {
		d.RTR = rtrNames[s.RTR]
	}
	b.out.IWARP = d
}

func (b *prober) describeRPCRDMA() {
	i, ok := b.conn.Info()
	if !ok {
		return
	}
	b.out.RPCRDMA = &ProbedRPCRDMA{
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
