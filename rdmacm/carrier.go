package rdmacm

// A Carrier describes the provider, the device and the protocol that carry a connection, for
// people who look for the cause of a fault.
type Carrier struct {
	// Provider is the provider's name. Device is the device's name, such as "mlx5_0", or empty
	// if the provider uses no device.
	Provider, Device string
	// Protocol is "iWARP", "InfiniBand" or "RoCE". It is "RDMA" for the in-memory provider of
	// package rdmatest.
	Protocol string
	// Shortcomings are the rules of this package that the device cannot keep.
	Shortcomings []Shortcoming
	// MPA holds the result of iWARP's MPA negotiation. It is nil if the provider does not
	// negotiate MPA itself.
	MPA *MPA
}

// MPA holds what the two sides of an iWARP connection agreed on (RFC 5044, RFC 6581).
type MPA struct {
	Revision uint8
	// Enhanced is true if the start-up frames carried the IRD and ORD of RFC 6581.
	Enhanced bool
	// CRC is true if a CRC32C protects the FPDUs, in both directions.
	CRC bool
	// Markers is true if this side inserts markers into the data that it sends, because the peer
	// requires them.
	Markers bool
	// PeerIRD and PeerORD are the values that the peer stated, or -1 if it stated none. IRD and
	// ORD are the values in force: IRD is the number of RDMA Reads that the peer may have
	// outstanding, ORD the number that this side may have outstanding.
	PeerIRD, PeerORD int
	IRD, ORD         int
	// PeerToPeer is true if the connection follows the peer-to-peer model of RFC 6581. RTR is
	// then the initiator's ready-to-receive message: "send", "write" or "read".
	PeerToPeer bool
	RTR        string
}
