package rdmacm

// A Carrier describes what carries a connection, for people who look for the reason of a fault.
type Carrier struct {
	// Provider is the provider's name. Device is the device's, such as "mlx5_0"; it is
	// empty if the provider needs none.
	Provider, Device string
	// Protocol is "iWARP", "InfiniBand" or "RoCE".
	Protocol string
	// Shortcomings are the rules that the device cannot keep.
	Shortcomings []Shortcoming
	// MPA is the agreement of iWARP; nil if the provider does not make it itself.
	MPA *MPA
}

// MPA holds what the two sides of an iWARP connection agreed on (RFC 5044, RFC 6581).
type MPA struct {
	Revision uint8
	// Enhanced: the start-up frames carried the data of RFC 6581.
	Enhanced bool
	// CRC: FPDUs are protected by CRC32C, in both directions.
	CRC bool
	// Markers: the peer wants markers in the data sent to it.
	Markers bool
	// PeerIRD and PeerORD are the peer's values, or -1 if it stated none. IRD is the number
	// of RDMA Reads that the peer may have outstanding, ORD the number that this side may
	// have outstanding.
	PeerIRD, PeerORD int
	IRD, ORD         int
	// PeerToPeer: the connection follows the peer-to-peer model of RFC 6581. RTR is the
	// initiator's ready-to-receive message then: "send", "write" or "read".
	PeerToPeer bool
	RTR        string
}
