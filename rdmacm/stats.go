package rdmacm

// Stats are the counters of a provider, for metrics.
type Stats struct {
	// Faults counts what peers did that a connection could not go on with.
	Faults []Count
	// Devices are those that are in use now. A provider that needs none has none.
	Devices []DeviceStats
	// Memory is what the messages of connections take of the device's memory, and
	// MemoryLimit what they may take, in bytes; 0: there is no limit.
	Memory, MemoryLimit int64
}

// A Count is how often something happened that its name says.
type Count struct {
	What string
	N    uint64
}

// DeviceStats describes a device that is in use.
type DeviceStats struct {
	// Name is the kernel's name of the device, such as "mlx5_0". Protocol is as in Carrier.
	Name, Protocol string
	// Connections is how many the device has now, and MaxConnections how many it can have.
	Connections, MaxConnections int
	// Registered is payload memory that the device can reach, in bytes.
	Registered int64
	// Active: the device's port carries traffic.
	Active bool
	// Events is how often each asynchronous event of the device came, by its name.
	Events []Count
}
