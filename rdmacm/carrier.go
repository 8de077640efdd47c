package rdmacm

// A Carrier describes the provider, the device and the protocol that carry a connection, for
// people who look for the cause of a fault. Its JSON keys, and those of MPA, are stable.
type Carrier struct {
	// Provider is the provider's name. Device is the device's name, such as "mlx5_0", or empty
	// if the provider uses no device.
	Provider string `json:"provider"`
	Device   string `json:"device,omitempty"`
	// Protocol is "iWARP", "InfiniBand" or "RoCE". It is "RDMA" for the in-memory provider of
	// package rdmatest.
	Protocol string `json:"protocol"`
	// Shortcomings are the rules of this package that the device cannot keep.
	Shortcomings []Shortcoming `json:"shortcomings,omitempty"`
	// MPA holds the result of iWARP's MPA negotiation. It is nil if the provider does not
	// negotiate MPA itself.
	MPA *MPA `json:"-"`
}

// MPA holds what the two sides of an iWARP connection agreed on (RFC 5044, RFC 6581).
type MPA struct {
	Revision uint8 `json:"mpa_revision"`
	// Enhanced is true if the start-up frames carried the IRD and ORD of RFC 6581.
	Enhanced bool `json:"enhanced"`
	// CRC is true if a CRC32C protects the FPDUs, in both directions.
	CRC bool `json:"crc"`
	// Markers is true if this side inserts markers into the data that it sends, because the peer
	// requires them.
	Markers bool `json:"markers"`
	// PeerIRD and PeerORD are the values that the peer stated, or -1 if it stated none. IRD and
	// ORD are the values in force: IRD is the number of RDMA Reads that the peer may have
	// outstanding, ORD the number that this side may have outstanding.
	PeerIRD int `json:"peer_ird"`
	PeerORD int `json:"peer_ord"`
	IRD     int `json:"ird"`
	ORD     int `json:"ord"`
	// PeerToPeer is true if the connection follows the peer-to-peer model of RFC 6581. RTR is
	// then the initiator's ready-to-receive message: "send", "write" or "read".
	PeerToPeer bool   `json:"peer_to_peer"`
	RTR        string `json:"rtr,omitempty"`
}
